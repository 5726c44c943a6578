-- Find the nearest visible chunks. The vector index returns contents in the order of their distance.
select c.id, c.document_id, 1 - (v.vector <=> :vector::halfvec) as score
  from rag_vector_{model_id} v
  join rag_chunk c on c.hash = v.hash
  join rag_document d on d.id = c.document_id and d.version = c.version
  join rag_meaning m on m.document_id = d.id and m.model_id = :model_id and m.version = d.version
 where true
   and d.collection_id = (select id from rag_collection where name = :collection) -- if collection
   and d.id = any(:documents::bigint[]) -- if documents
 order by v.vector <=> :vector::halfvec
 limit :limit
