-- Whether nothing was ever declared or submitted here.
select not exists (select 1 from hf_pipeline)
