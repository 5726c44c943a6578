-- Remember which document is being tried at a paused step. Without one, the next worker may try.
update hf_circuit
   set probe_document_id = :document_id, probe_fence = :fence,
       probe_at = case when :document_id::bigint is null then :now else probe_at end
 where step_id = :step_id
