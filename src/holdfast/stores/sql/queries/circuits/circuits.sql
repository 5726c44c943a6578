-- Return the circuits of a pipeline, in the order of its steps.
select p.name, s.name, c.opened_at, c.opened_by, c.failures, c.error, c.category, c.reason, c.probes, c.probe_at,
       c.probe_at - :now, c.closed_at, c.closed_by, c.close_reason
  from hf_circuit c
  join hf_step s on s.id = c.step_id
  join hf_pipeline p on p.id = s.pipeline_id
 where p.name = :pipeline
 order by s.id
