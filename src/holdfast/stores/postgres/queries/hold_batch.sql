-- One batch, held until the transaction ends: nobody submits to it or opens a document of it again meanwhile.
select report::text
  from hf_batch
 where id = %(batch_id)s
   for update
