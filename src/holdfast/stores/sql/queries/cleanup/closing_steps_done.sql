-- Return true if the closing steps of a batch are done, or if it has none.
select not exists (select 1
                     from hf_document d
                    where d.key = :batch
                      and d.batch_id = (select b.id
                                          from hf_batch b
                                          join hf_pipeline p on p.id = b.pipeline_id
                                         where p.name = :closing
                                           and b.name = :batch)
                      and not (d.state in ('done', 'cancelled') or (d.state = 'dead' and d.accepted_by is not null)))
