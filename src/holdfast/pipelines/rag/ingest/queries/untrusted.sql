-- Of these sources, list those that nobody named here and that no file was ever read from.
select b.value
  from json_each(:sources) as b -- on sqlite
  from unnest(:sources::text[]) as b (value) -- on postgresql
 where not exists (select 1
                     from rag_source s
                    where s.collection = :collection
                      and s.source = b.value)
   and not exists (select 1
                     from rag_file f
                    where f.collection = :collection
                      and f.source = b.value)
