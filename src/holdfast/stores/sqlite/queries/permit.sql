-- One more is in the step.
insert into hf_permit (step_id, document_id, fence)
values (:step_id, :document_id, :fence)
