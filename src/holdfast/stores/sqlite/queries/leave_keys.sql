-- Documents leave the keys that others get in the same transaction: for a moment they have one that nobody else has.
update hf_document
   set key = :aside || id
 where id in (select value from json_each(:ids))
