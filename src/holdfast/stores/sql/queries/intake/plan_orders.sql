-- Return the steps of every plan of a pipeline, in order. Plans that nobody declared come first.
select p.id, s.name
  from hf_plan p
  join json_each(p.step_ids) as place -- on sqlite
  join hf_step s on s.id = place.value -- on sqlite
 cross join lateral json_array_elements_text(p.step_ids) with ordinality as place (value, key) -- on postgresql
  join hf_step s on s.id = place.value::bigint -- on postgresql
 where p.pipeline_id = :pipeline_id
 order by p.declared_at is not null, p.declared_at, p.id, place.key
