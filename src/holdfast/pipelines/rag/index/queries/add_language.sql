-- Record that documents of a language exist.
insert into rag_language (language) values (:language)
on conflict do nothing
