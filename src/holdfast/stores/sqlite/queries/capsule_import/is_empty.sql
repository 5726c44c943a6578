-- Return true if nothing was ever declared here.
select not exists (select 1 from hf_pipeline)
