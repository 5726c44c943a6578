-- Add the terms of the titles of documents.
alter table rag_document add column title_terms text not null default ''
