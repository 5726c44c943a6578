-- Return the shape of a plan, and the ids and the current names of its steps, in order.
select p.shape::text, p.step_ids::text,
       (select json_group_array(name) -- on sqlite
          from (select s.name -- on sqlite
                  from json_each(p.step_ids) place -- on sqlite
                  join hf_step s on s.id = place.value -- on sqlite
                 order by place.key)) -- on sqlite
       (select json_agg(s.name order by place.nth)::text -- on postgresql
          from json_array_elements_text(p.step_ids) with ordinality as place (step_id, nth) -- on postgresql
          join hf_step s on s.id = place.step_id::bigint) -- on postgresql
  from hf_plan p
 where p.id = :plan_id
