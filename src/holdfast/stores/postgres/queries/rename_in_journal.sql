-- The lines of a step that has a new name follow it: what was decided there is asked for by the present name.
update hf_journal
   set step = %(new)s
 where step = %(old)s
   and document_id in (select id from hf_document where pipeline_id = %(pipeline_id)s)
