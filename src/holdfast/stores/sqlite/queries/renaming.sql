-- The documents that have these keys.
select key, id, state
  from hf_document
 where batch_id = :batch_id
   and key in (select value from json_each(:keys))
 order by id
