-- A step gets a new name: its number stays, so documents and items follow by themselves.
update hf_step
   set name = :new
 where pipeline_id = :pipeline_id
   and name = :old
   and not exists (select 1 from hf_step where pipeline_id = :pipeline_id and name = :new)
