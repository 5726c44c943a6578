-- Return for documents what is kept of a step over items: the cursor, the number of items, the number of items that the
-- step gets, and the items that were set aside with their tries.
select place.id, d.cursor::text,
       coalesce((select sum(i.items)
                   from hf_item i
                  where i.document_id = place.id
                    and i.generation = place.generation
                    and i.step_id = :step_id
                    and i.position >= 0), 0)::bigint,
       coalesce((select i.position + i.items
                   from hf_item i
                  where i.document_id = place.id
                    and i.generation = place.source_generation
                    and i.step_id = :source_id
                  order by i.position desc
                  limit 1), 0),
       (select json_agg(json_build_array(a.position, a.tries))
          from hf_aside a
         where a.document_id = place.id
           and a.generation = place.generation
           and a.step_id = :step_id)::text
  from rows(:places) as place (id bigint, generation int, source_generation int)
  join hf_document d on d.id = place.id
 where d.id in :places_id::bigint[] -- on postgresql
 order by place.id
