-- Accept dead letters that nobody has accepted yet.
update hf_document
   set accepted_by = :who
 where id in :ids::bigint[]
