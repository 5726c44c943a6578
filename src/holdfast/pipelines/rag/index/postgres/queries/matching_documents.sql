-- List the visible documents that a search looks at.
select d.id
  from rag_document d
  join rag_collection c on c.id = d.collection_id
 where d.version is not null
   and c.name = :collection -- if collection
   and d.source = :source -- if source
   and d.key = :key -- if key
   and d.key ~ :path -- if path
   and d.kind = :kind -- if kind
   and not exists (select 1 from unnest(:paths::text[]) p (pattern) where d.key !~ p.pattern) -- if paths
   and d.kind = any(:kinds::text[]) -- if kinds
   and not exists (select 1 from jsonb_array_elements(:titles::jsonb) t (variants) where not exists (select 1 from jsonb_array_elements_text(t.variants) v (part) where strpos(d.title_terms, v.part) > 0)) -- if titles
   and not exists (select 1 from jsonb_each(:metadata::jsonb) w where nullif(d.metadata -> w.key, 'null') is distinct from nullif(w.value, 'null')) -- if metadata
