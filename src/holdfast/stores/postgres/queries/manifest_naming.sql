-- The parts of a manifest that name any of these keys. It walks all of it.
select m.submission, m.part, m.keys::text
  from hf_manifest m
 where m.batch_id = %(batch_id)s
   and exists (select 1
                 from json_array_elements_text(m.keys) as key (value)
                where key.value = any(%(keys)s::text[]))
