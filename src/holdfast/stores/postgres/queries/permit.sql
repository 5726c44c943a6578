-- More are in the step.
insert into hf_permit (step_id, document_id, fence)
select %(step_id)s, document_id, fence
  from unnest(%(document_ids)s::bigint[], %(fences)s::bigint[]) as admitted (document_id, fence)
