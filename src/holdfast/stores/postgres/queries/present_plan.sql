-- The plan that was declared last: its number, its shape, and the numbers of its steps, in order.
select id, shape::text, step_ids::text
  from hf_plan
 where pipeline_id = %(pipeline_id)s
   and declared_at is not null
 order by declared_at desc, id desc
 limit 1
