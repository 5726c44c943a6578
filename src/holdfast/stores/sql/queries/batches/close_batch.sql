-- Close a batch and store its report.
update hf_batch
   set state = 'closed', closed_at = :closed_at, report = :report
 where id = :batch_id
   and state = 'sealed'
