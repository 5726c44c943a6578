-- Delete the pages of all versions of a document except one.
delete from rag_page
 where document_id = :document_id
   and version is not :version -- on sqlite
   and version is distinct from :version -- on postgresql
