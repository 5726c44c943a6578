-- Which of these moves were made, asked after their answer was lost: under one fence only its holder moves.
select d.id
  from unnest(%(ids)s::bigint[], %(generations)s::int[], %(fences)s::bigint[], %(moves)s::bigint[])
       as asked (id, generation, fence, moves)
  join hf_document d on d.id = asked.id
 where d.id = any(%(ids)s::bigint[])
   and d.generation = asked.generation
   and d.fence = asked.fence
   and d.moves > asked.moves
