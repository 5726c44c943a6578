-- Abandon the vector spaces of a collection, except those at one place (and of one model, if it is not empty).
update rag_space
   set collection = null
 where collection = :collection
   and (place <> :kept_place or (:kept_model <> '' and model <> :kept_model))
