-- Documents get another priority.
update hf_document
   set priority = %(priority)s
 where id = any(%(ids)s::bigint[])
