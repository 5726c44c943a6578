-- Documents of a closed batch go; their batch counts them as gone.
delete from hf_document
 where id = any(%(ids)s::bigint[])
returning id, state
