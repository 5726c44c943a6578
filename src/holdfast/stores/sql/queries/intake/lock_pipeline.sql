-- Return the id of a pipeline, and lock it until the transaction ends: declarations of it take turns. The lock is one
-- that a submit does not wait for, nor the other way round: an app may keep its transaction open after a submit.
select id
  from hf_pipeline
 where name = :name
   for no key update -- on postgresql
