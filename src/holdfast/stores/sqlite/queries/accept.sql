-- Dead letters that nobody accepted yet are accepted by name.
update hf_document
   set accepted_by = :who
 where id in (select value from json_each(:ids))
