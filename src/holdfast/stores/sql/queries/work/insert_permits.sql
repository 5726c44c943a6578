-- Let documents into a step: the first ones, of those that are still held by their claim.
insert into hf_permit (step_id, document_id, fence)
select :step_id, d.id, d.fence
  from rows(:claims) as c (id bigint, fence bigint, place int)
  join hf_document d on d.id = c.id
                    and d.id in :claims_id::bigint[] -- on postgresql
                    and d.fence = c.fence
                    and d.state = 'running'
 order by c.place
 limit :room
returning document_id, fence
