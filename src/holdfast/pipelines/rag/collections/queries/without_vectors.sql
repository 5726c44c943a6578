-- List documents whose visible version has no vectors of a model, in the order of their ids.
select d.id, d.version, d.source, d.key
  from rag_document d
  join rag_collection c on c.id = d.collection_id
 where c.name = :collection
   and d.id > :after
   and d.version is not null
   and not exists (select 1
                     from rag_meaning m
                     join rag_model o on o.id = m.model_id
                    where m.document_id = d.id
                      and m.version = d.version
                      and o.name = :model)
 order by d.id
 limit :limit
