-- Store an item of bytes.
insert into hf_item (document_id, generation, step_id, position, data, kept_at)
values (?, ?, ?, ?, ?, ?)
