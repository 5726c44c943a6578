-- Store an item that is large: the row only refers to the value.
insert into hf_item (document_id, generation, step_id, position, blob_hash, kept_at)
values (?, ?, ?, ?, ?, ?)
