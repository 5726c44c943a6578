-- A line of the journal as a capsule brought it.
insert into hf_journal (document_id, at, verb, who, generation, step, cursor, detail)
values (?, ?, ?, ?, ?, ?, ?, ?)
