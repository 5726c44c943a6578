-- Change the key of the document that a remark is about.
update rag_remark
   set key = :new
 where collection = :collection
   and source = :source
   and key = :key
