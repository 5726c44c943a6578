-- The rows that may have items of a step between two positions.
select i.position, i.items, coalesce(i.value, i.data, b.content), b.media
  from hf_item i
  left join hf_blob b on b.hash = i.blob_hash
 where i.document_id = ?
   and i.generation = ?
   and i.step_id = ?
   and i.position > ?
   and i.position < ?
   and i.position + i.items > ?
 order by i.position
