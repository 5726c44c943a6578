-- Vectors of contents that no chunk has any more, unless one has come meanwhile. The number of the model comes first.
delete from rag_vector
 where model_id = ?
   and hash in (with gone (hash) as (values
/* rows */ (?)
                )
                select hash
                  from gone
                 where hash not in (select c.hash from rag_chunk c where c.hash in (select hash from gone)))
