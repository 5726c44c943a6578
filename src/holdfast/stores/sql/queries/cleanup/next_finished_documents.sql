-- Return the next documents of a batch that ended long ago and are not cleaned up, by key, and how many rows each has.
select d.id, d.key, 1 + (select count(*) from hf_item i where i.document_id = d.id)
  from hf_document d
 where d.batch_id = :batch_id
   and d.key >= :start
   and d.moved_at < :before
   and not exists (select 1 from hf_journal j where j.document_id = d.id and j.at >= :before)
   and d.cleaned_at is null
   and ((d.state = 'done'
         and not exists (select 1 from hf_aside a where a.document_id = d.id)
         and not exists (select 1 from hf_journal j where j.document_id = d.id and j.verb = 'fail'))
        or (:with_errors
            and (d.state in ('done', 'cancelled') or (d.state = 'dead' and d.accepted_by is not null))))
 order by d.key
 limit :limit
