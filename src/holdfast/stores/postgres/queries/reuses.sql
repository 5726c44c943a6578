-- Which generation's items serve which step, of documents that were rewound.
select d.id, s.name, r.value::int
  from hf_document d
 cross join json_each_text(d.reuses) r
  join hf_step s on s.id = r.key::bigint
 where d.id = any(%(ids)s::bigint[])
 order by d.id, s.id
