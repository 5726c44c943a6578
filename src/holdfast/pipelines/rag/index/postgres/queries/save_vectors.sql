-- Save vectors by the hashes of their contents. Sorted, so that two sessions that save the same do not deadlock.
insert into rag_vector_{model_id} (hash, vector)
select n.hash, n.vector::halfvec
  from unnest(:hashes::bytea[], :vectors::text[]) as n (hash, vector)
 order by n.hash
on conflict (hash) do nothing
