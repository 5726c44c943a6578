-- The shape that a plan is made of, and the names that its steps have now, in order.
select p.shape,
       (select json_group_array(name)
          from (select s.name
                  from json_each(p.step_ids) place
                  join hf_step s on s.id = place.value
                 order by place.key))
  from hf_plan p
 where p.id = :plan_id
