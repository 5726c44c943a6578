-- Return whether every visible document of a collection has vectors of a model.
select not exists (select 1
                     from rag_document d
                    where d.collection_id = (select id from rag_collection where name = :collection)
                      and d.version is not null
                      and not exists (select 1
                                        from rag_meaning m
                                       where m.document_id = d.id
                                         and m.model_id = :model_id
                                         and m.version = d.version))
