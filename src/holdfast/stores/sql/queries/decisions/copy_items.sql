-- Copy what a step kept for documents into the generations that they have now. Large values are not copied.
insert into hf_item (document_id, generation, step_id, position, items, value, data, blob_hash, kept_at)
select i.document_id, d.generation, i.step_id, i.position, i.items, i.value, i.data, i.blob_hash, i.kept_at
  from rows(:documents) as begun (id bigint, generation int)
  join hf_document d on d.id = begun.id
  join hf_item i on i.document_id = begun.id and i.generation = begun.generation and i.step_id = :step_id
 where d.id in :documents_id::bigint[] -- on postgresql
