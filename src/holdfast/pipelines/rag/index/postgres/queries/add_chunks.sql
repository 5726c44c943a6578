-- The next chunks of a version that is being made, with their words: those of the title count for less.
insert into rag_chunk (document_id, version, position, page, start, stop, hash, text, words)
select %(document_id)s, %(version)s, coalesce(before.last + 1, 0) + n.place - 1, n.page, n.start, n.stop, n.hash, n.text,
       setweight(to_tsvector('english', left(n.text, 200000)), 'A') || setweight(to_tsvector('english', n.title), 'B')
  from unnest(%(pages)s::int[], %(starts)s::int[], %(stops)s::int[], %(hashes)s::bytea[], %(texts)s::text[],
              %(titles)s::text[]) with ordinality as n (page, start, stop, hash, text, title, place),
       (select max(position) as last
          from rag_chunk
         where document_id = %(document_id)s and version = %(version)s) before
 order by n.place
