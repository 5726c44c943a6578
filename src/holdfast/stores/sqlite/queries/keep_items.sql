-- What steps kept.
insert into hf_item (document_id, generation, step_id, position, value, data, blob_hash, kept_at)
values
       /* rows */ (?, ?, ?, ?, ?, ?, ?, ?)
