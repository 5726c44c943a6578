-- The line of a cleanup tells its counts so far.
update hf_journal
   set detail = %(detail)s::json
 where id = %(journal_id)s
   and batch_id = %(batch_id)s
