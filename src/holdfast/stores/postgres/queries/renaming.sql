-- The documents that have these keys, held until they are renamed.
select key, id, state
  from hf_document
 where batch_id = %(batch_id)s
   and key = any(%(keys)s::text[])
 order by id
   for update
