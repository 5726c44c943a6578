-- List versions that vector searches may find but that are not in the vector space of their collection.
select d.id, d.version, d.source, d.key
  from rag_document d
  join rag_collection c on c.id = d.collection_id
  join rag_model o on o.name = :model
  join rag_meaning m on m.document_id = d.id and m.model_id = o.id and m.version = d.version
 where c.name = :collection
   and not exists (select 1
                     from rag_published p
                     join rag_space s on s.id = p.space_id
                    where s.collection = c.name
                      and s.place = :place
                      and s.model = o.name
                      and p.document_id = d.id
                      and p.version = d.version)
   and d.id > :after
 order by d.id
 limit :limit
