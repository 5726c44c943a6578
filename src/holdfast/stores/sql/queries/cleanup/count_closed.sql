-- Count what a cleanup of a closed batch would delete.
with found as (select d.id
                 from hf_document d
                where d.batch_id = :batch_id
                  and d.state in ('done', 'dead', 'cancelled'))
select (select count(*) from found),
       (select coalesce(sum(i.items), 0)::bigint from hf_item i where i.document_id in (select id from found)),
       (select count(*) from hf_aside a where a.document_id in (select id from found)),
       (select count(*) from hf_journal j where j.document_id in (select id from found))
