-- Record what the steps kept that rewound documents reuse.
update hf_document as d
   set extents = new.extents
  from rows(:documents) as new (id bigint, extents json)
 where d.id = new.id
   and d.id in :documents_id::bigint[] -- on postgresql
