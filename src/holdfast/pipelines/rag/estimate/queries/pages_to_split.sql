-- List documents with their pages, the characters of their text, and the chunks of the new size.
select key, count(length), coalesce(sum(length), 0),
       coalesce(sum(case when length <= :size then 1 else 1 + (length - :size + :step - 1) / :step end), 0)
  from (select d.key, k.page, max(k.stop) as length
          from rag_document d
          join rag_collection c on c.id = d.collection_id
          left join rag_chunk k on k.document_id = d.id and k.version = d.chunked
         where c.name = :collection
           and d.source = :source
           and d.key in :keys::text[]
         group by d.key, k.page) pages
 group by key
