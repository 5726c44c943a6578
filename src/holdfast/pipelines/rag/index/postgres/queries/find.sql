-- One document, and what is seen of it.
select d.id, d.version, d.chunked
  from rag_document d
  join rag_collection c on c.id = d.collection_id
 where c.name = %(collection)s
   and d.source = %(source)s
   and d.key = %(key)s
