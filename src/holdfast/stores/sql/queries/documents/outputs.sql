-- Count what each step kept for a document, in its current generation or the one that it reuses, and how many it
-- said it will keep.
select s.name, sum(i.items)::bigint, min(i.kept_at), max(i.kept_at),
       (select count(*)
          from hf_aside a
         where a.document_id = i.document_id
           and a.generation = i.generation
           and a.step_id = i.step_id),
       json_int(d.totals, s.id)
  from hf_document d
  join hf_item i on i.document_id = d.id
  join hf_step s on s.id = i.step_id
 where d.id = :document_id
   and i.generation = coalesce(json_int(d.reuses, s.id), d.generation)
 group by d.id, s.name, s.id, i.document_id, i.generation, i.step_id
 order by min(i.kept_at), s.id
