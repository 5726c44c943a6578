-- The documents of a source whose keys begin with another.
select d.key
  from rag_document d
  join rag_collection c on c.id = d.collection_id
 where c.name = %(collection)s
   and d.source = %(source)s
   and starts_with(d.key, %(key)s)
