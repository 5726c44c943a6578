-- Of each document: the latest generation of which anything is kept, and one past the last position of its step;
-- and the plan under which what is behind it was done.
select coalesce((select max(generation) from hf_item where document_id = place.value ->> 0), -1),
       coalesce((select position + items
                   from hf_item
                  where document_id = place.value ->> 0
                    and generation = place.value ->> 1
                    and step_id = place.value ->> 2
                  order by position desc
                  limit 1), 0),
       coalesce((select plan_id from hf_document where id = place.value ->> 0), 0)
  from json_each(:places) place
 order by place.key
