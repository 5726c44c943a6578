-- Return the documents whose moves were made, after the answer of the database was lost. Under one fence only the holder
-- moves a document. All are locked first: a move that has not ended, because it waits for a standby, is waited for.
with locked as materialized (
  select id, generation, fence, moves
    from hf_document
   where id in :ids::bigint[]
   order by id
     for no key update
)
select d.id
  from unnest(:ids::bigint[], :generations::int[], :fences::bigint[], :moves::bigint[])
       as asked (id, generation, fence, moves)
  join locked d on d.id = asked.id
 where d.generation = asked.generation
   and d.fence = asked.fence
   and d.moves > asked.moves
