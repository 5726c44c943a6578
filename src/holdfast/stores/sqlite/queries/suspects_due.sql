-- Whether a document that crashed its workers is due.
select exists (select 1
                 from hf_document
                where pipeline_id = :pipeline_id
                  and state = 'waiting'
                  and due_at <= :now
                  and crashes >= 2)
