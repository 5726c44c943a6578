-- Record that a step left rows of an earlier generation behind, if nobody has yet.
update hf_step
   set rows_left_at = :now
 where id = :step_id
   and rows_left_at is null
