-- Read visible chunks by id, with their documents and texts. The chunks of a page follow one another, so the last chunk
-- of another page before a chunk says how many of its own page precede it.
select c.id, l.name, d.source, d.key, d.kind, d.title, d.metadata, coalesce(p.metadata, '{}'), c.page, c.start, c.stop, c.position,
       case c.page when 1 then c.position
            else c.position - 1
                 - coalesce((select e.position
                               from rag_chunk e
                              where e.document_id = c.document_id
                                and e.version = c.version
                                and e.position < c.position
                                and e.page <> c.page
                              order by e.position desc
                              limit 1), -1) end,
       c.text, d.language
  from rag_chunk c
  join rag_document d on d.id = c.document_id and d.version = c.version
  join rag_collection l on l.id = d.collection_id
  left join rag_page p on p.document_id = c.document_id and p.version = c.version and p.page = c.page
 where c.id = any(:ids::bigint[])
