-- The shape that a plan is made of, and the names that its steps have now, in order.
select p.shape::text,
       (select json_agg(s.name order by place.nth)::text
          from json_array_elements_text(p.step_ids) with ordinality as place (step_id, nth)
          join hf_step s on s.id = place.step_id::bigint)
  from hf_plan p
 where p.id = %(plan_id)s
