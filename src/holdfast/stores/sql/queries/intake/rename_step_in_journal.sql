-- Rename a step in the journal, so that decisions are found under its new name.
update hf_journal
   set step = :new
 where step = :old
   and document_id in (select id from hf_document where pipeline_id = :pipeline_id)
