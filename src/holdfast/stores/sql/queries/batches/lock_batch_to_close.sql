-- Return the report of a batch, locked until the transaction ends: nobody submits to it or opens a document of it.
select report::text
  from hf_batch
 where id = :batch_id
   for update -- on postgresql
