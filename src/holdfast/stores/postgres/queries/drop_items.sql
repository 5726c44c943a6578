-- A document that is done as a later generation needs the items of the earlier ones no more, but for those it reuses.
delete from hf_item i
 using hf_document d
 where d.id = %(document_id)s
   and i.document_id = %(document_id)s
   and i.generation < d.generation
   and i.generation is distinct from (d.reuses ->> i.step_id::text)::int
