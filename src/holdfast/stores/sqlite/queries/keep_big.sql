-- What steps kept that is big: the row only refers to it.
insert into hf_item (document_id, generation, step_id, position, blob_hash, kept_at)
values (?, ?, ?, ?, ?, ?)
