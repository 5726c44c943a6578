-- The documents that a question is about.
select d.id
  from rag_document d
  join rag_collection c on c.id = d.collection_id
 where d.version is not null
   and c.name = %(collection)s -- if collection
   and d.source = %(source)s -- if source
   and d.key = %(key)s -- if key
   and d.key ~ %(path)s -- if path
   and d.kind = %(kind)s -- if kind
   and not exists (select 1 from jsonb_each(%(metadata)s::jsonb) w where nullif(d.metadata -> w.key, 'null') is distinct from nullif(w.value, 'null')) -- if metadata
