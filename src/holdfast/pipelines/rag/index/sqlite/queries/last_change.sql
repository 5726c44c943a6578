-- Return the number of the last change that searches have to know.
select coalesce(max(changed), 0)
  from rag_document
