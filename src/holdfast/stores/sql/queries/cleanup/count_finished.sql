-- Count what a cleanup of documents that ended long ago would delete.
with found as (select d.id
                 from hf_document d
                where d.batch_id = :batch_id
                  and d.moved_at < :before
                  and not exists (select 1 from hf_journal j where j.document_id = d.id and j.at >= :before)
                  and d.cleaned_at is null
                  and ((d.state = 'done'
                        and not exists (select 1 from hf_aside a where a.document_id = d.id)
                        and not exists (select 1 from hf_journal j where j.document_id = d.id and j.verb = 'fail'))
                       or (:with_errors
                           and (d.state in ('done', 'cancelled') or (d.state = 'dead' and d.accepted_by is not null)))))
select (select count(*) from found),
       (select coalesce(sum(i.items), 0)::bigint from hf_item i where i.document_id in (select id from found)),
       (select count(*) from hf_aside a where a.document_id in (select id from found)),
       (select count(*) from hf_journal j where j.document_id in (select id from found))
