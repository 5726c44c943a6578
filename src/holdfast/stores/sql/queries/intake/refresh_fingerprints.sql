-- Save the new times of files whose content is the same. Nothing else of their documents changes.
update hf_document as d
   set fingerprint = new.fingerprint
  from rows(:documents) as new (id bigint, fingerprint text)
 where d.id = new.id
   and d.id in :documents_id::bigint[] -- on postgresql
