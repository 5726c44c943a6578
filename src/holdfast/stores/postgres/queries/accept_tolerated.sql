-- The tolerance of a batch accepts the dead letters that nobody accepted by name.
update hf_document
   set accepted_by = %(accepted_by)s
 where pipeline_id = %(pipeline_id)s
   and state = 'dead'
   and batch_id = %(batch_id)s
   and accepted_by is null
