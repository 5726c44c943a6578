-- Delete the failed items of documents.
delete from hf_aside
 where document_id in :ids::bigint[]
