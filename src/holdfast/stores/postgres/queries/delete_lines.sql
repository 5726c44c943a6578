-- The journal of documents goes.
delete from hf_journal
 where document_id = any(%(ids)s::bigint[])
