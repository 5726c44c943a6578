-- Return the items that were set aside in the documents of a pipeline, in their current generations.
select d.id, b.name, d.key, d.state, s.name, a.position, a.tries, a.error::text
  from hf_aside a
  join hf_document d on d.id = a.document_id
  join hf_batch b on b.id = d.batch_id
  join hf_step s on s.id = a.step_id
 where d.pipeline_id = (select id from hf_pipeline where name = :pipeline)
   and a.generation = coalesce(json_int(d.reuses, s.id), d.generation)
   and d.state <> 'cancelled'
   and (d.id, s.name, a.position) > (:document_id, :after_step, :after_position) -- if after -- on sqlite
   and (d.id, s.name collate "C", a.position) > (:document_id::bigint, :after_step::text, :after_position::bigint) -- if after -- on postgresql
   and b.name = :batch -- if batch
   and d.key = :key -- if key
   and d.key glob :keys -- if keys -- on sqlite
   and d.key like :keys -- if keys -- on postgresql
   and s.name = :step -- if step
   and a.error ->> 'kind' = :error -- if error
   and (a.error ->> 'kind') || ': ' || (a.error ->> 'message') like :text escape '\' -- if text -- on sqlite
   and (a.error ->> 'kind') || ': ' || (a.error ->> 'message') ilike :text -- if text -- on postgresql
 order by d.id, s.name, a.position -- on sqlite
 order by d.id, s.name collate "C", a.position -- on postgresql
 limit :limit
