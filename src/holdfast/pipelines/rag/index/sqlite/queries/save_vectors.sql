-- Save vectors by the hashes of their contents.
insert or fail into rag_vector (model_id, hash, vector) values
/* rows */ (?, ?, ?)
on conflict (model_id, hash) do nothing
