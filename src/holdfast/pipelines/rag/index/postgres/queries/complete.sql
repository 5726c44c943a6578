-- Whether every document that is seen can be found by the meaning that a model gives it.
select not exists (select 1
                     from rag_document d
                    where d.collection_id = (select id from rag_collection where name = %(collection)s)
                      and d.version is not null
                      and not exists (select 1
                                        from rag_meaning m
                                       where m.document_id = d.id
                                         and m.model_id = %(model_id)s
                                         and m.version = d.version))
