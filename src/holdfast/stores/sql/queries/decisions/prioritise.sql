-- Set the priority of documents.
update hf_document
   set priority = :priority
 where id in :ids::bigint[]
