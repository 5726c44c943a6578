-- Mark documents as cleaned up if they have not changed since they were found. Their rows stay, so that submitting them
-- again changes nothing.
update hf_document as d
   set cleaned_at = :now
 where d.id in :ids::bigint[]
   and d.moved_at < :before
   and not exists (select 1 from hf_journal j where j.document_id = d.id and j.at >= :before)
   and d.cleaned_at is null
   and ((d.state = 'done'
         and not exists (select 1 from hf_aside a where a.document_id = d.id)
         and not exists (select 1 from hf_journal j where j.document_id = d.id and j.verb = 'fail'))
        or (:with_errors
            and (d.state in ('done', 'cancelled') or (d.state = 'dead' and d.accepted_by is not null))))
returning id
