-- List the remarks about documents of a collection.
select source, key, code, reason, skipped
  from rag_remark
 where collection = :collection
 order by source, key
