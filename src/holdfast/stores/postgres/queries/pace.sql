-- What the bodies of steps took since the last time, added to their history. In one order, so that workers do not collide.
insert into hf_pace as p (step_id, documents, seconds)
select spent.step_id, spent.documents, spent.seconds
  from unnest(%(step_ids)s::bigint[], %(documents)s::bigint[], %(seconds)s::float8[])
       as spent (step_id, documents, seconds)
 order by spent.step_id
    on conflict (step_id) do update
   set documents = p.documents + excluded.documents, seconds = p.seconds + excluded.seconds
