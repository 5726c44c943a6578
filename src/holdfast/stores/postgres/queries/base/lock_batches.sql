-- Lock the batches of these documents until a decision is made, so that none is closed meanwhile. Whoever closes a batch
-- locks it before its documents, as decisions do. Submits are not blocked.
select b.id
  from hf_batch b
 where b.id in (select batch_id from hf_document where id in :ids::bigint[])
 order by b.id
   for key share
