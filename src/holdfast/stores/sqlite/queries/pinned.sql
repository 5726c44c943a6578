-- Documents that are pinned to these plans: how many, and the first three.
select count(*), json_group_array(key) filter (where nth <= 3)
  from (select key, row_number() over (order by id) as nth
          from hf_document
         where pipeline_id = :pipeline_id
           and plan_id in (select value from json_each(:plan_ids))
           and state in (select value from json_each(:states))
           and (:step is null
                or step_id = (select id from hf_step where pipeline_id = :pipeline_id and name = :step)))
