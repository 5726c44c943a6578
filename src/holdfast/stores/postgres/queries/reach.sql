-- The latest generation of which anything is kept for a document, and one past the last position that a step kept.
select coalesce((select max(generation) from hf_item where document_id = %(document_id)s), -1),
       coalesce((select position + items
                   from hf_item
                  where document_id = %(document_id)s
                    and generation = %(generation)s
                    and step_id = %(step_id)s
                  order by position desc
                  limit 1), 0)
