-- Of each document: the latest generation of which anything is kept, and one past the last position of its step;
-- and the plan under which what is behind it was done.
select coalesce((select max(generation) from hf_item where document_id = place.id), -1),
       coalesce((select position + items
                   from hf_item
                  where document_id = place.id
                    and generation = place.generation
                    and step_id = place.step_id
                  order by position desc
                  limit 1), 0),
       coalesce((select plan_id from hf_document where id = place.id), 0)
  from unnest(%(ids)s::bigint[], %(generations)s::int[], %(step_ids)s::bigint[])
       with ordinality as place (id, generation, step_id, nth)
 order by place.nth
