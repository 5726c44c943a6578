-- Let this transaction try a document at a paused step: if its time has come, and the last one is not being tried still.
-- A time that is further away than the longest wait is wrong: a clock was set back.
update hf_circuit
   set probe_at = :now + :wait::interval
 where step_id = :step_id
   and opened_at is not null
   and (probe_at <= :now or probe_at > :now + :longest::interval)
   and not exists (select 1
                     from hf_document d
                    where d.id = hf_circuit.probe_document_id
                      and d.fence = hf_circuit.probe_fence
                      and d.state = 'running')
