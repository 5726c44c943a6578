-- The chunks whose vectors are nearest, of a few documents: all are compared.
select c.id, c.document_id, 1 - (v.vector <=> %(vector)s::halfvec) as score
  from rag_document d
  join rag_meaning m on m.document_id = d.id and m.model_id = %(model_id)s and m.version = d.version
  join rag_chunk c on c.document_id = d.id and c.version = d.version
  join rag_vector_{model_id} v on v.hash = c.hash
 where true
   and d.collection_id = (select id from rag_collection where name = %(collection)s) -- if collection
   and d.id = any(%(documents)s::bigint[]) -- if documents
 order by (v.vector <=> %(vector)s::halfvec) + 0, c.id
 limit %(limit)s
