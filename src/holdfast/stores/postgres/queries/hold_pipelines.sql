-- Holds the pipelines of these documents until a decision is made: no plan is declared meanwhile, which would not see
-- what is decided, nor be seen by it. Whoever declares one has it before its documents, as we do.
select p.id
  from hf_pipeline p
 where p.id in (select pipeline_id from hf_document where id = any(%(ids)s::bigint[]))
 order by p.id
   for share
