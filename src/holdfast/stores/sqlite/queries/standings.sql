-- Where the documents of a pipeline stand, the last moved first.
select *
  from hf_standing
 where pipeline = :pipeline
   and (:batch is null or batch = :batch)
   and (:state is null or state = :state)
 order by moved_at desc, id desc
 limit :limit
