-- One batch, held until the transaction ends. Here, whoever writes holds everything.
select report
  from hf_batch
 where id = :batch_id
