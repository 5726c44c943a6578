-- Find the nearest visible chunks of a few documents: compare all of them.
select c.id, c.document_id, 1 - (v.vector <=> :vector::halfvec) as score
  from rag_document d
  join rag_meaning m on m.document_id = d.id and m.model_id = :model_id and m.version = d.version
  join rag_chunk c on c.document_id = d.id and c.version = d.version
  join rag_vector_{model_id} v on v.hash = c.hash
 where true
   and d.collection_id = (select id from rag_collection where name = :collection) -- if collection
   and d.id = any(:documents::bigint[]) -- if documents
 order by (v.vector <=> :vector::halfvec) + 0, c.id
 limit :limit
