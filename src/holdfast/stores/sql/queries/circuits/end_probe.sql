-- Record that a document was tried at a paused step, and when the next one may be tried.
update hf_circuit
   set probe_at = :now + :wait::interval, probes = probes + :failed,
       error = case when :failed = 1 then :error else error end,
       category = case when :failed = 1 then :category else category end,
       reason = case when :failed = 1 then :reason else reason end
 where step_id = :step_id
   and opened_at is not null
   and probe_document_id = :document_id
   and probe_fence = :fence
