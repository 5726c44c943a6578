-- The steps of every plan that a pipeline had, in order: first of plans that nobody declared.
select p.id, s.name
  from hf_plan p
  join json_each(p.step_ids) place
  join hf_step s on s.id = place.value
 where p.pipeline_id = :pipeline_id
 order by p.declared_at is not null, p.declared_at, p.id, place.key
