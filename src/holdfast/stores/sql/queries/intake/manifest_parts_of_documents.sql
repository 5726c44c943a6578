-- Return the parts of the manifest in which these documents were submitted, unless they were changed later.
select submission, part, keys::text
  from hf_manifest
 where batch_id = :batch_id
   and (submission, part) in (select submission, part
                                from hf_document
                               where id in :ids::bigint[])
