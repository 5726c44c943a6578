-- Delete documents of a closed batch. Their batch counts them as gone.
delete from hf_document
 where id in :ids::bigint[]
   and state in ('done', 'dead', 'cancelled')
returning id, state
