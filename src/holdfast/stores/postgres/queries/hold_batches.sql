-- Holds the batches of these documents until a decision is made: none is closed meanwhile, and whoever closes one has it
-- before its documents, as we do. Submits go on beside it.
select b.id
  from hf_batch b
 where b.id in (select batch_id from hf_document where id = any(%(ids)s::bigint[]))
 order by b.id
   for key share
