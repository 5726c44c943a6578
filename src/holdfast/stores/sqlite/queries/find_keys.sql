-- Which of these documents are known already.
select key, id, fingerprint, submission, part
  from hf_document
 where batch_id = :batch_id
   and key in (select value from json_each(:keys))
