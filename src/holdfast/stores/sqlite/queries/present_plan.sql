-- The plan that was declared last: its number, its shape, and the numbers of its steps, in order.
select id, shape, step_ids
  from hf_plan
 where pipeline_id = :pipeline_id
   and declared_at is not null
 order by declared_at desc, id desc
 limit 1
