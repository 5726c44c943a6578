-- A closed batch keeps its report for good.
update hf_batch
   set state = 'closed', closed_at = %(closed_at)s, report = %(report)s
 where id = %(batch_id)s
   and state = 'sealed'
