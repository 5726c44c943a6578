-- Delete the record of a failed item that has been processed since.
delete from hf_aside
 where document_id = :document_id
   and generation = :generation
   and step_id = :step_id
   and position = :position
