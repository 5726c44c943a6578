-- One more is in the step, if it is still held by whoever asks.
insert into hf_permit (step_id, document_id, fence)
select :step_id, id, fence
  from hf_document
 where id = :document_id
   and fence = :fence
   and state = 'running'
