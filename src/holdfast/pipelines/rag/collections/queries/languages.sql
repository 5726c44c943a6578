-- Count the visible documents of a collection by language.
select d.language, count(*)
  from rag_document d
  join rag_collection c on c.id = d.collection_id
 where c.name = :collection
   and d.version is not null
 group by d.language
 order by count(*) desc, d.language
