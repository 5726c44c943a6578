-- An item that was set aside is done now.
delete from hf_aside
 where document_id = %s
   and generation = %s
   and step_id = %s
   and position = %s
