-- Documents of a closed batch go; their batch counts them as gone.
delete from hf_document
 where id = any(%(ids)s::bigint[])
   and state in ('done', 'dead', 'cancelled')
returning id, state
