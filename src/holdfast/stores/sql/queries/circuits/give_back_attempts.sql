-- Give documents back attempts that an outage cost them, if they are still held or did not move since they were claimed.
update hf_document as d
   set attempts = greatest(d.attempts - back.attempts, 0)
  from rows(:back) as back (id bigint, fence bigint, generation int, moves bigint, attempts int)
 where d.id = back.id
   and d.id in :back_id::bigint[] -- on postgresql
   and (d.fence = back.fence or (d.generation = back.generation and d.moves = back.moves))
   and d.state in ('waiting', 'running')
