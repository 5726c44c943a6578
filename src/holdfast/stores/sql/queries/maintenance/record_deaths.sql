-- Keep what is known about the end of workers, for the documents of other pipelines that they held.
update hf_worker as w
   set death = d.death::json
  from rows(:deaths) as d (id bigint, death text)
 where w.id = d.id
