-- Return the documents whose claims are lost: the fence is another, or nobody holds the document.
select c.id
  from rows(:claims) as c (id bigint, fence bigint)
  left join hf_document d on d.id = c.id
                         and d.fence = c.fence
                         and d.state = 'running' -- on sqlite
                         and d.id in :claims_id::bigint[] -- on postgresql
                         and coalesce(d.worker_id, 0) <> 0 -- on postgresql
 where d.id is null
