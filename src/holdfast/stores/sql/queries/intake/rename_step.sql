-- Rename a step. Its number stays the same, so documents and items need no change.
update hf_step
   set name = :new
 where pipeline_id = :pipeline_id
   and name = :old
   and not exists (select 1 from hf_step where pipeline_id = :pipeline_id and name = :new)
