-- Delete the journal of documents.
delete from hf_journal
 where document_id in :ids::bigint[]
