-- A document goes by another key.
update rag_document
   set key = :new, changed = (select coalesce(max(changed), 0) + 1 from rag_document)
 where collection_id = (select id from rag_collection where name = :collection)
   and source = :source
   and key = :old
