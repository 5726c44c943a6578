-- The journal of documents goes.
delete from hf_journal
 where document_id in (select value from json_each(:ids))
