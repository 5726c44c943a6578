-- Changed documents begin anew, as a new generation. A worker that holds one loses it.
-- What a document that was done kept is served until it is done again.
-- The generation is later than anything that is kept, also where a damaged row says that it is not.
-- The slice is looked up first, key by key: of two unknown sizes SQLite would walk the batch, and the slice for each.
with new as materialized (
  select d.id, one.value
    from json_each(:documents) as one
   cross join hf_document d on d.batch_id = :batch_id and d.key = one.value ->> 0
)
update hf_document
   set payload = new.value ->> 1, fingerprint = new.value ->> 2, priority = new.value ->> 3,
       plan_id = :plan_id, step_id = :step_id, submission = :submission, part = :part,
       generation = 1 + max(generation, coalesce((select max(i.generation)
                                                    from hf_item i
                                                   where i.document_id = hf_document.id), 0)),
       fence = fence + 1, moves = moves + 1, cursor = null, reuses = null,
       serves = case when cleaned_at is not null then null
                     when state <> 'done' then serves
                     else (select json_group_object(s.id, coalesce(json_extract(hf_document.reuses, '$."' || s.id || '"'),
                                                                   hf_document.generation))
                             from hf_step s
                            where s.pipeline_id = hf_document.pipeline_id) end,
       state = 'waiting', worker_id = null, worked_by = null, attempts = 0, crashes = 0, reason = '', error = '',
       accepted_by = null, claimed_at = null, cleaned_at = null,
       due_at = :now, deadline_at = null, moved_at = :now
  from new
 where hf_document.id = new.id
