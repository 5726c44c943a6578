-- Return one page of the items that a step kept for a document, by position.
select i.position, i.items, i.value::text, coalesce(i.data, b.content), b.media, i.blob_hash
  from hf_item i
  left join hf_blob b on b.hash = i.blob_hash
 where i.document_id = :document_id
   and i.generation = :generation
   and i.step_id = :step_id
   and i.position > :after
 order by i.position
 limit :limit
