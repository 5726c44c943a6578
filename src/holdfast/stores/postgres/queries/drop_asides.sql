-- Documents that are done as later generations need what earlier ones set aside no more, but for what they reuse.
delete from hf_aside a
 using hf_document d
 where d.id = any(%(ids)s::bigint[])
   and a.document_id = any(%(ids)s::bigint[])
   and a.document_id = d.id
   and a.generation < d.generation
   and a.generation is distinct from (d.reuses ->> a.step_id::text)::int
