-- Lock the pipelines of these documents until a decision is made, so that no plan is declared meanwhile: it would not
-- see the decision, nor be seen by it. Whoever declares a plan locks the pipeline before its documents, as decisions do.
select p.id
  from hf_pipeline p
 where p.id in (select pipeline_id from hf_document where id in :ids::bigint[])
 order by p.id
   for share
