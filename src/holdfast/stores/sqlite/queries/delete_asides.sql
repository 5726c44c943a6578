-- What was set aside for documents goes.
delete from hf_aside
 where document_id in (select value from json_each(:ids))
