-- Whether a document that crashed its workers is due, of those that may be claimed.
select exists (select 1
                 from hf_document
                where pipeline_id = %(pipeline_id)s
                  and state = 'waiting'
                  and due_at <= coalesce(%(now)s::timestamptz, now())
                  and crashes >= 2
                  and step_id = any(%(step_ids)s::bigint[])
                  and (%(batch)s::text is null
                       or batch_id = (select id
                                        from hf_batch
                                       where pipeline_id = %(pipeline_id)s
                                         and name = %(batch)s::text)))
