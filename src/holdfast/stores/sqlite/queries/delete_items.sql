-- What steps kept for documents goes.
delete from hf_item
 where document_id in (select value from json_each(:ids))
returning items
