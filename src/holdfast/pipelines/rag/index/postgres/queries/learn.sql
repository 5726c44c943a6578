-- A version, if it is still the one that is seen, and for as long as this transaction takes.
select 1
  from rag_document
 where id = %(document_id)s
   and version = %(version)s
   for update
