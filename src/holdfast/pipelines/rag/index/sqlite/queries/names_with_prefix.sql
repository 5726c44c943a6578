-- List the documents of a source whose keys start with a prefix. No key has the last Unicode character.
select d.key
  from rag_document d
  join rag_collection c on c.id = d.collection_id
 where c.name = :collection
   and d.source = :source
   and d.key >= :key
   and d.key < :key || char(0x10ffff)
