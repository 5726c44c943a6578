-- Return a row if words may be stored apart from their chunk, which is the default: ranking would fetch them one by one.
select 1
  from pg_attribute
 where attrelid = 'rag_chunk'::regclass
   and attname = 'words'
   and attstorage <> 'm'
