-- How many documents workers hold.
select count(*)
  from hf_document
 where pipeline_id = %(pipeline_id)s
   and state = 'running'
   and (%(batch)s::text is null
        or batch_id = (select id from hf_batch where pipeline_id = %(pipeline_id)s and name = %(batch)s::text))
