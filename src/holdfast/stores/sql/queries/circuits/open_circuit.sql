-- Open the circuit of a step, unless it is open. Return the step if this statement opened it.
insert into hf_circuit (step_id, opened_at, opened_by, failures, error, category, reason, probes, probe_at)
values (:step_id, :now, :who, :failures, :error, :category, :reason, 0, :now + :wait::interval)
    on conflict (step_id) do update
   set opened_at = excluded.opened_at, opened_by = excluded.opened_by, failures = excluded.failures,
       error = excluded.error, category = excluded.category, reason = excluded.reason, probes = 0,
       probe_at = excluded.probe_at, probe_document_id = null, probe_fence = null
 where hf_circuit.opened_at is null
returning step_id
