-- Paused documents that stood at the last gate are done.
update hf_document
   set state = 'done', step_id = null, cursor = null, moves = moves + 1, due_at = null, reason = '', error = '',
       serves = null, moved_at = :now
 where id in (select value from json_each(:ids))
