-- Documents of a closed batch go; their batch counts them as gone.
delete from hf_document
 where id in (select value from json_each(:ids))
   and state in ('done', 'dead', 'cancelled')
returning id, state
