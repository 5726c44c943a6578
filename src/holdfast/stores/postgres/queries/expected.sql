-- How many documents were ever submitted.
select id, expected
  from hf_batch
 where pipeline_id = (select id from hf_pipeline where name = %(pipeline)s)
   and (%(batch)s::text is null or name = %(batch)s::text)
