-- List the visible documents that a search looks at.
select d.id
  from rag_document d
  join rag_collection c on c.id = d.collection_id
 where d.version is not null
   and c.name = :collection -- if collection
   and d.source = :source -- if source
   and d.key = :key -- if key
   and d.key glob :path -- if path
   and d.kind = :kind -- if kind
   and not exists (select 1 from json_each(:paths) p where d.key not glob p.value) -- if paths
   and d.kind in (select value from json_each(:kinds)) -- if kinds
   and not exists (select 1 from json_each(:titles) t where not exists (select 1 from json_each(t.value) v where instr(d.title_terms, v.value) > 0)) -- if titles
   and not exists (select 1 from json_each(:metadata) w where w.value is not (select h.value from json_each(d.metadata) h where h.key = w.key)) -- if metadata
