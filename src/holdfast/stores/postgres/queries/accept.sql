-- Dead letters that nobody accepted yet are accepted by name.
update hf_document
   set accepted_by = %(who)s
 where id = any(%(ids)s::bigint[])
