-- Return the rows that may have items of a step between two positions.
select i.position, i.items, i.value::text, coalesce(i.data, b.content), b.media, i.blob_hash
  from hf_item i
  left join hf_blob b on b.hash = i.blob_hash
 where i.document_id = :document_id
   and i.generation = :generation
   and i.step_id = :step_id
   and i.position > :first
   and i.position < :stop
   and i.position + i.items > :start
 order by i.position
