-- Vectors, remembered by the contents that they stand for. In one order: two who remember the same wait in turn.
insert into rag_vector_{model_id} (hash, vector)
select n.hash, n.vector::halfvec
  from unnest(%(hashes)s::bytea[], %(vectors)s::text[]) as n (hash, vector)
 order by n.hash
on conflict (hash) do nothing
