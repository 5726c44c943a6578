-- A step gets a new name: its number stays, so documents and items follow by themselves.
update hf_step
   set name = %(new)s
 where pipeline_id = %(pipeline_id)s
   and name = %(old)s
   and not exists (select 1 from hf_step where pipeline_id = %(pipeline_id)s and name = %(new)s)
