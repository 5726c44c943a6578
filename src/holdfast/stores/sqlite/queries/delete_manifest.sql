-- The manifest of a closed batch goes before its documents: what is cleaned up is not missing.
delete from hf_manifest
 where (batch_id, submission, part) in (select batch_id, submission, part
                                          from hf_manifest
                                         where batch_id = :batch_id
                                         limit :limit)
