-- Which of these documents are known already.
select key, id, fingerprint, submission, part
  from hf_document
 where batch_id = %(batch_id)s
   and key = any(%(keys)s::text[])
