-- Return the plan that was declared last: its id, its shape, and the ids of its steps, in order.
select id, shape::text, step_ids::text
  from hf_plan
 where pipeline_id = :pipeline_id
   and declared_at is not null
 order by declared_at desc, id desc
 limit 1
