-- Where the documents of a pipeline stand, the last moved first.
select *
  from hf_standing
 where pipeline = %(pipeline)s
   and (%(batch)s::text is null or batch = %(batch)s::text)
   and (%(state)s::text is null or state = %(state)s::text)
 order by moved_at desc, id desc
 limit %(limit)s
