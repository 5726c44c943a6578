-- Delete the remark about a document.
delete from rag_remark
 where collection = :collection
   and source = :source
   and key = :key
