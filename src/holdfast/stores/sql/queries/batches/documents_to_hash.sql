-- Return what is hashed of the documents of a batch, a page at a time.
select key, fingerprint, generation, state
  from hf_document
 where batch_id = :batch_id
   and key >= :start
 order by key
 limit :limit
