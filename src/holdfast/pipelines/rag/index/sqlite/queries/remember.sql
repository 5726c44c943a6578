-- A vector, remembered by the content that it stands for.
insert or fail into rag_vector (model_id, hash, vector) values
/* rows */ (?, ?, ?)
on conflict (model_id, hash) do nothing
