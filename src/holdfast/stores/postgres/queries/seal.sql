-- A sealed batch takes no new documents.
update hf_batch
   set state = 'sealed'
 where pipeline_id = (select id from hf_pipeline where name = %(pipeline)s)
   and name = %(batch)s
   and state = 'open'
