-- The parts of a manifest that these documents came in with, unless they were changed later.
select submission, part, keys
  from hf_manifest
 where batch_id = :batch_id
   and (submission, part) in (select submission, part
                                from hf_document
                               where id in (select value from json_each(:ids)))
