-- Count the documents that are pinned to these plans, and return the first three keys.
select count(*),
       json_group_array(key) filter (where nth <= 3) -- on sqlite
       coalesce(json_agg(key order by nth) filter (where nth <= 3), '[]')::text -- on postgresql
  from (select key, row_number() over (order by id) as nth
          from hf_document
         where pipeline_id = :pipeline_id
           and plan_id in :plan_ids::bigint[]
           and state in :states::text[]
           and (:step::text is null
                or step_id = (select id from hf_step where pipeline_id = :pipeline_id and name = :step::text))) d
