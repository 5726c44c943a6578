-- Return for each document one past the last position of its step, the plan under which its work was done, and how many
-- items, whole values and failed items each generation of each step kept. Only some documents are counted. SQLite returns
-- them in the order of the rows.
select coalesce((select position + items
                   from hf_item
                  where document_id = place.id
                    and generation = place.generation
                    and step_id = place.step_id
                  order by position desc
                  limit 1), 0),
       coalesce((select plan_id from hf_document where id = place.id), 0),
       coalesce((select max(generation) from hf_item where document_id = place.id), -1),
       case when place.counted = 1
            then (select json_agg(json_build_array(kept.generation, kept.step_id, kept.items, kept.whole))
                    from (select generation, step_id, sum(items * (position >= 0)::int) as items,
                                 sum((position < 0)::int) as whole
                            from hf_item
                           where document_id = place.id
                           group by generation, step_id) as kept)::text
       end,
       case when place.counted = 1
            then (select json_agg(json_build_array(failed.generation, failed.step_id, failed.items))
                    from (select generation, step_id, count(*) as items
                            from hf_aside
                           where document_id = place.id
                           group by generation, step_id) as failed)::text
       end
  from rows(:places) as place (id bigint, generation int, step_id bigint, counted int, nth int)
 order by place.nth -- on postgresql
