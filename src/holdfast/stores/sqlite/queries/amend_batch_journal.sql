-- The line of a cleanup tells its counts so far.
update hf_journal
   set detail = :detail
 where id = :journal_id
   and batch_id = :batch_id
