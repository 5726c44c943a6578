-- The tolerance of a batch accepts the dead letters that nobody accepted by name.
update hf_document indexed by hf_document_dead
   set accepted_by = :accepted_by
 where pipeline_id = :pipeline_id
   and state = 'dead'
   and batch_id = :batch_id
   and accepted_by is null
