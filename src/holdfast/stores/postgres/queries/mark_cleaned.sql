-- Documents are cleaned up, if they are still what was found. Their rows stay: submitted again, there is nothing to do.
update hf_document as d
   set cleaned_at = coalesce(%(now)s::timestamptz, now())
 where d.id = any(%(ids)s::bigint[])
   and d.moved_at < %(before)s
   and not exists (select 1 from hf_journal j where j.document_id = d.id and j.at >= %(before)s)
   and d.cleaned_at is null
   and ((d.state = 'done'
         and not exists (select 1 from hf_aside a where a.document_id = d.id)
         and not exists (select 1 from hf_journal j where j.document_id = d.id and j.verb = 'fail'))
        or (%(with_errors)s
            and (d.state in ('done', 'cancelled') or (d.state = 'dead' and d.accepted_by is not null))))
returning d.id
