-- Documents get another priority.
update hf_document
   set priority = :priority
 where id in (select value from json_each(:ids))
