-- What was set aside for documents goes.
delete from hf_aside
 where document_id = any(%(ids)s::bigint[])
