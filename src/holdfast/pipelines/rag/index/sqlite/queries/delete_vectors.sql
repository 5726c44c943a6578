-- Delete vectors that no chunk needs. The id of the model is the first parameter.
delete from rag_vector
 where model_id = ?
   and hash in (with gone (hash) as (values
/* rows */ (?)
                )
                select hash
                  from gone
                 where hash not in (select c.hash from rag_chunk c where c.hash in (select hash from gone)))
