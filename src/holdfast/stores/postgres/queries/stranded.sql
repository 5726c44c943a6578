-- Open documents at steps that the plan lacks. A step without a name is one that the pipeline never had.
select s.name, count(*), array_agg(d.key order by d.nth) filter (where d.nth <= 3)
  from (select step_id, key, row_number() over (partition by step_id order by id) as nth
          from hf_document
         where pipeline_id = %(pipeline_id)s
           and state in ('waiting', 'running', 'paused')
           and step_id <> all(%(step_ids)s::bigint[])) d
  left join hf_step s on s.id = d.step_id and s.pipeline_id = %(pipeline_id)s
 group by s.name
