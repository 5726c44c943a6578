-- Delete the items of documents, and return how many items each row had.
delete from hf_item
 where document_id in :ids::bigint[]
returning items
