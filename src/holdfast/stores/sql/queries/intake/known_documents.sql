-- Return the documents of a batch that have one of these keys.
select key, id, fingerprint, submission, part
  from hf_document
 where batch_id = :batch_id
   and key in :keys::text[]
