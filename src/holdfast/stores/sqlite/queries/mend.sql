-- An item that was set aside is done now.
delete from hf_aside
 where document_id = ?
   and generation = ?
   and step_id = ?
   and position = ?
