-- Let the next document of every open circuit of a pipeline be tried now.
update hf_circuit
   set probe_at = :now
 where step_id in :step_ids::bigint[]
   and opened_at is not null
