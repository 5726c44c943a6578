-- All chunks of a version have vectors of a model.
insert into rag_meaning (document_id, model_id, version) values (%(document_id)s, %(model_id)s, %(version)s)
on conflict (document_id, model_id) do update set version = excluded.version
