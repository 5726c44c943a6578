-- The plans that a pipeline had: first what nobody declared, then as they were declared.
select id, shape, step_ids, declared_at
  from hf_plan
 where pipeline_id = :pipeline_id
 order by declared_at is not null, declared_at, id
