-- Documents that are done as later generations need the items of the earlier ones no more, but for those they reuse.
delete from hf_item i
 using hf_document d
 where d.id = any(%(ids)s::bigint[])
   and i.document_id = any(%(ids)s::bigint[])
   and i.document_id = d.id
   and i.generation < d.generation
   and i.generation is distinct from (d.reuses ->> i.step_id::text)::int
