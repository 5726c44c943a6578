-- Accept the dead letters of a batch that nobody has accepted, by the tolerance of the batch.
update hf_document
   indexed by hf_document_dead -- on sqlite
   set accepted_by = :accepted_by
 where pipeline_id = :pipeline_id
   and state = 'dead'
   and batch_id = :batch_id
   and accepted_by is null
