-- Holds a document until the transaction ends, so that what is read of it stays true.
select id
  from hf_document
 where id = %(id)s
   for no key update
