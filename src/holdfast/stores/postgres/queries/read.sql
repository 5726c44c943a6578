-- The rows that may have items of a step between two positions.
select i.position, i.items, i.value::text, coalesce(i.data, b.content), b.media
  from hf_item i
  left join hf_blob b on b.hash = i.blob_hash
 where i.document_id = %(document_id)s
   and i.generation = %(generation)s
   and i.step_id = %(step_id)s
   and i.position > %(first)s
   and i.position + i.items > %(start)s
   and i.position < %(stop)s
 order by i.position
