-- Add chunks to a version, with their words.
insert into rag_chunk (document_id, version, position, page, start, stop, hash, text, words)
select :document_id, :version, coalesce(before.last + 1, 0) + n.place - 1, n.page, n.start, n.stop, n.hash, n.text,
       n.words::tsvector
  from unnest(:pages::int[], :starts::int[], :stops::int[], :hashes::bytea[], :texts::text[],
              :words::text[]) with ordinality as n (page, start, stop, hash, text, words, place),
       (select max(position) as last
          from rag_chunk
         where document_id = :document_id and version = :version) before
 order by n.place
