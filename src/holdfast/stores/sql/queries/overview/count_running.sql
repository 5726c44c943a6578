-- Count the documents that workers hold.
select count(*)
  from hf_document
 where pipeline_id = :pipeline_id
   and state = 'running'
   and (:batch::text is null
        or batch_id = (select id from hf_batch where pipeline_id = :pipeline_id and name = :batch::text))
