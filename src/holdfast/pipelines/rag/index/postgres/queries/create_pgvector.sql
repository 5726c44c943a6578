-- Add pgvector to this database.
create extension vector
