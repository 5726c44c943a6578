-- Which of these claims are held no more: another fence, or nobody holds the document.
select claim.id
  from unnest(%(ids)s::bigint[], %(fences)s::bigint[]) as claim (id, fence)
  left join hf_document d on d.id = any(%(ids)s::bigint[])
                         and d.id = claim.id
                         and d.fence = claim.fence
                         and coalesce(d.worker_id, 0) <> 0
 where d.id is null
