-- Make a version visible to vector searches. All its chunks have vectors of the model.
insert into rag_meaning (document_id, model_id, version) values (:document_id, :model_id, :version)
on conflict (document_id, model_id) do update set version = excluded.version
