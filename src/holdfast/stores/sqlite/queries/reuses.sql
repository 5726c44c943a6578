-- Which generation's items serve which step, of documents that were rewound.
select d.id, s.name, r.value
  from hf_document d
  join json_each(d.reuses) r
  join hf_step s on s.id = cast(r.key as integer)
 where d.id in (select value from json_each(:ids))
 order by d.id, s.id
