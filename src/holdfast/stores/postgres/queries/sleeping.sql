-- Whether a paused document's time has come.
select exists (select 1
                 from hf_document
                where pipeline_id = %(pipeline_id)s
                  and state = 'paused'
                  and due_at <= coalesce(%(now)s::timestamptz, now())
                  and (step_id = any(%(bodies)s::bigint[]) or error = 'OnHold'))
