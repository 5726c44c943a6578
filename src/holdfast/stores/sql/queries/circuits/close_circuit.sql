-- Close the circuit of a step, if it is open.
update hf_circuit
   set opened_at = null, probe_at = null, probe_document_id = null, probe_fence = null, closed_at = :now,
       closed_by = :who, close_reason = :reason
 where step_id in (select s.id
                     from hf_step s
                     join hf_pipeline p on p.id = s.pipeline_id
                    where p.name = :pipeline
                      and s.name = :step)
   and opened_at is not null
