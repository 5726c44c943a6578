-- Count the items that a step kept and set aside for documents, by the state of these documents. The last position says
-- how many were kept, so no item is read.
select state, coalesce(sum(items), 0)::bigint, sum(aside)::bigint
  from (select d.state,
               (select i.position + i.items
                  from hf_item i
                 where i.document_id = d.id
                   and i.step_id = s.id
                   and i.generation = coalesce(json_int(d.reuses, s.id), d.generation)
                 order by i.position desc
                 limit 1) as items,
               (select count(*)
                  from hf_aside a
                 where a.document_id = d.id
                   and a.step_id = s.id
                   and a.generation = coalesce(json_int(d.reuses, s.id), d.generation)) as aside
          from hf_document d
          join hf_pipeline p on p.id = d.pipeline_id
          join hf_step s on s.pipeline_id = p.id
         where p.name = :pipeline
           and s.name = :step) kept
 where items > 0
    or aside > 0
 group by state
