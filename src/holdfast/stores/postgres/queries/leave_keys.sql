-- Documents leave the keys that others get in the same transaction: for a moment they have one that nobody else has.
update hf_document
   set key = %(aside)s || id
 where id = any(%(ids)s::bigint[])
