-- Delete the manifest of a closed batch before its documents, so that none of them is missing.
delete from hf_manifest
 where (batch_id, submission, part) in (select batch_id, submission, part
                                          from hf_manifest
                                         where batch_id = :batch_id
                                         limit :limit)
