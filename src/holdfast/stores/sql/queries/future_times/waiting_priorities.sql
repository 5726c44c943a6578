-- Return the priorities that waiting documents have, the highest first. The index gives each at once, however many
-- documents there are.
with recursive found (priority) as (
  select max(priority)
    from hf_document
   where pipeline_id = :pipeline_id
     and state = 'waiting'
  union all
  select (select max(d.priority)
            from hf_document d
           where d.pipeline_id = :pipeline_id
             and d.state = 'waiting'
             and d.priority < found.priority)
    from found
   where found.priority is not null
)
select priority
  from found
 where priority is not null
