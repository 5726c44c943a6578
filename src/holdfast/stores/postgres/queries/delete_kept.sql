-- What steps kept for documents goes, what was set aside, and their journal: all at once, and counted.
with items as (
  delete from hf_item
   where document_id = any(%(ids)s::bigint[])
  returning items
),
asides as (
  delete from hf_aside
   where document_id = any(%(ids)s::bigint[])
  returning 1
),
lines as (
  delete from hf_journal
   where document_id = any(%(ids)s::bigint[])
  returning 1
)
select (select coalesce(sum(items), 0)::bigint from items), (select count(*) from asides), (select count(*) from lines)
