-- How many documents were ever submitted, and how many of them were cleaned up.
select id, expected, gone_done, gone_dead, gone_cancelled
  from hf_batch
 where pipeline_id = (select id from hf_pipeline where name = %(pipeline)s)
   and (%(batch)s::text is null or name = %(batch)s::text)
