-- Return the plans of a pipeline: first those that nobody declared, then in the order of declaration.
select id, shape::text, step_ids::text, declared_at
  from hf_plan
 where pipeline_id = :pipeline_id
 order by declared_at is not null, declared_at, id
