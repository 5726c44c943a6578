-- Copy items that stay set aside into the generations that their documents have now.
insert into hf_aside (document_id, generation, step_id, position, tries, error, set_aside_at)
select a.document_id, d.generation, a.step_id, a.position, a.tries, a.error, a.set_aside_at
  from rows(:items) as staying (id bigint, generation int, position bigint)
  join hf_document d on d.id = staying.id
  join hf_aside a on a.document_id = staying.id and a.generation = staying.generation and a.step_id = :step_id
                 and a.position = staying.position
 where d.id in :items_id::bigint[] -- on postgresql
