-- Save the remark about a document.
insert into rag_remark (collection, source, key, code, reason, skipped)
values (:collection, :source, :key, :code, :reason, :skipped)
on conflict (collection, source, key) do update
   set code = excluded.code,
       reason = excluded.reason,
       skipped = excluded.skipped
