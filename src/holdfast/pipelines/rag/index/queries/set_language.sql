-- Set the language of a document, and the terms of its title.
update rag_document
   set language = :language,
       title_terms = :title_terms
 where id = :document
