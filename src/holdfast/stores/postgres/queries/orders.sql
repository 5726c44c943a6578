-- The steps of every plan that a pipeline had, in order: first of plans that nobody declared.
select p.id, s.name
  from hf_plan p
  cross join lateral json_array_elements_text(p.step_ids) with ordinality as place (step_id, nth)
  join hf_step s on s.id = place.step_id::bigint
 where p.pipeline_id = %(pipeline_id)s
 order by p.declared_at is not null, p.declared_at, p.id, place.nth
