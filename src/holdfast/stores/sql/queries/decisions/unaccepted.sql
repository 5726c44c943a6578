-- Return the dead letters that nobody has accepted yet.
select id
  from hf_document
 where id in :ids::bigint[]
   and accepted_by is null
 order by id
