-- How many chunks a question is about, counted no further than is worth comparing one by one.
select count(*)
  from (select 1
          from rag_document d
          join rag_chunk c on c.document_id = d.id and c.version = d.version
         where true
           and d.collection_id = (select id from rag_collection where name = %(collection)s) -- if collection
           and d.id = any(%(documents)s::bigint[]) -- if documents
         limit %(most)s) counted
