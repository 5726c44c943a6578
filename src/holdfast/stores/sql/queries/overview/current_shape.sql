-- Return the shape that was declared last.
select shape::text
  from hf_plan
 where pipeline_id = (select id from hf_pipeline where name = :pipeline)
   and declared_at is not null
 order by declared_at desc, id desc
 limit 1
