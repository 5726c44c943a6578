-- Documents that are pinned to these plans: how many, and the first three.
select count(*), coalesce(array_agg(key order by nth) filter (where nth <= 3), '{}')
  from (select key, row_number() over (order by id) as nth
          from hf_document
         where pipeline_id = %(pipeline_id)s
           and plan_id = any(%(plan_ids)s::bigint[])
           and state = any(%(states)s::text[])
           and (%(step)s::text is null
                or step_id = (select id from hf_step where pipeline_id = %(pipeline_id)s and name = %(step)s::text))) d
