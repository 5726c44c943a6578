-- A vector, remembered by the content that it stands for.
insert into rag_vector (model_id, hash, vector) values
/* rows */ (?, ?, ?)
on conflict (model_id, hash) do nothing
