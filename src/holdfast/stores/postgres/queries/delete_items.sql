-- What steps kept for documents goes.
with deleted as (
  delete from hf_item
   where document_id = any(%(ids)s::bigint[])
  returning items
)
select coalesce(sum(items), 0)::bigint
  from deleted
