-- More are in the step: the first who ask, of those that are still held by whoever asks.
insert into hf_permit (step_id, document_id, fence)
select %(step_id)s, d.id, d.fence
  from unnest(%(document_ids)s::bigint[], %(fences)s::bigint[]) with ordinality as asking (document_id, fence, place)
  join hf_document d on d.id = any(%(document_ids)s::bigint[])
                    and d.id = asking.document_id
                    and d.fence = asking.fence
                    and d.state = 'running'
 order by asking.place
 limit %(room)s
returning document_id, fence
