-- Count open documents at steps that the plan lacks, with the first three keys. A step without a name is one that the
-- pipeline never had.
select s.name, count(*),
       json_group_array(d.key) filter (where d.nth <= 3) -- on sqlite
       (json_agg(d.key order by d.nth) filter (where d.nth <= 3))::text -- on postgresql
  from (select step_id, key, row_number() over (partition by step_id order by id) as nth
          from hf_document
         where pipeline_id = :pipeline_id
           and state in ('waiting', 'running', 'paused')
           and step_id not in :step_ids::bigint[]) d
  left join hf_step s on s.id = d.step_id and s.pipeline_id = :pipeline_id
 group by s.name
