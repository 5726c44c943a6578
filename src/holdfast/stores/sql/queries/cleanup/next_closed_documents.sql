-- Return the next documents of a batch, by key, and how many rows of items each has.
select d.id, d.key, 1 + (select count(*) from hf_item i where i.document_id = d.id)
  from hf_document d
 where d.batch_id = :batch_id
   and d.key >= :start
   and d.state in ('done', 'dead', 'cancelled')
 order by d.key
 limit :limit
