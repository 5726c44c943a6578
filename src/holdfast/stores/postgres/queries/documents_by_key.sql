-- What is hashed of the documents of a batch, a page at a time.
select key, fingerprint, generation, state
  from hf_document
 where batch_id = %(batch_id)s
   and key >= %(start)s
 order by key
 limit %(limit)s
