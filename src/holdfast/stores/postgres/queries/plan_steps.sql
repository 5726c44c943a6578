-- The steps of every plan that a pipeline had, by their numbers, in order.
select id, step_ids::text
  from hf_plan
 where pipeline_id = %(pipeline_id)s
