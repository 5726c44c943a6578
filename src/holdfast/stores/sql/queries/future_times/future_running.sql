-- Return running documents that were claimed or moved by a clock that was ahead. One that is just moving is skipped.
select id, greatest(claimed_at, moved_at) - :now
  from hf_document
  indexed by hf_document_running -- on sqlite
 where pipeline_id = :pipeline_id
   and state = 'running'
   and greatest(claimed_at, moved_at) > :now + :tolerance::interval
 order by id
   for no key update skip locked -- on postgresql
