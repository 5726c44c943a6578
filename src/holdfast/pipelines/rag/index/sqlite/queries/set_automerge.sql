-- Merge new text less often than by default, as schema.sql does.
insert into rag_words (rag_words, rank) values ('automerge', 16)
