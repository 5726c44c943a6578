-- Add the language of documents.
alter table rag_document add column language text not null default ''
