-- The documents of a batch that were cancelled, by key.
select key
  from hf_document
 where batch_id = %(batch_id)s
   and state = 'cancelled'
 order by key
 limit %(limit)s
