-- The latest generation of which anything is kept for a document, and one past the last position that a step kept.
select coalesce((select max(generation) from hf_item where document_id = ?1), -1),
       coalesce((select position + items
                   from hf_item
                  where document_id = ?1
                    and generation = ?2
                    and step_id = ?3
                  order by position desc
                  limit 1), 0)
