-- The shape that a plan is made of.
select shape::text
  from hf_plan
 where id = %(plan_id)s
