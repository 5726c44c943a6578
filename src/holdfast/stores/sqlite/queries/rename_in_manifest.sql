-- One part of a manifest names documents as they are called now.
update hf_manifest
   set keys = :keys
 where batch_id = :batch_id
   and submission = :submission
   and part = :part
