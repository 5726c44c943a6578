-- All that is kept for a document, by step and position, a page at a time.
select s.name, i.position, i.items, coalesce(i.value, i.data, x.content), x.media, s.id
  from hf_document d
  join hf_item i on i.document_id = d.id
  join hf_step s on s.id = i.step_id
  left join hf_blob x on x.hash = i.blob_hash
 where d.id = :document_id
   and i.generation = coalesce(json_extract(d.reuses, '$."' || s.id || '"'), d.generation)
   and (s.id, i.position) > (:step_id, :position)
 order by s.id, i.position
 limit :limit
