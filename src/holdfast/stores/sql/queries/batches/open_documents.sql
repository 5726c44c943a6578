-- Return the documents of a batch that have not ended.
select id
  from hf_document
 where batch_id = :batch_id
   and state in ('waiting', 'running', 'paused')
 order by id
 limit :limit
