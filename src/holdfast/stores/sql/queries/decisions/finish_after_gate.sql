-- Finish paused documents that were at the last gate.
update hf_document
   set state = 'done', step_id = null, cursor = null, moves = moves + 1, due_at = null, reason = '', code = '', error = '', recoverable = null,
       serves = null, moved_at = :now
 where id in :ids::bigint[]
