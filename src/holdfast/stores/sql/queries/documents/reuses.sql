-- Return which generation's items serve which step, of documents that were rewound.
select d.id, s.name, r.value::int
  from hf_document d
  join json_each(d.reuses) as r -- on sqlite
  join hf_step s on s.id = cast(r.key as integer) -- on sqlite
 cross join json_each_text(d.reuses) as r -- on postgresql
  join hf_step s on s.id = r.key::bigint -- on postgresql
 where d.id in :ids::bigint[]
 order by d.id, s.id
