-- Update the counts in the journal line of a cleanup.
update hf_journal
   set detail = :detail::json
 where id = :journal_id
   and batch_id = :batch_id
