-- Put rewound documents inside a step, at a cursor that lacks the items that are tried again. Rows that the effect of the
-- step wrote count as rows of the new generation: they stay.
update hf_document as d
   set cursor = new.cursor, extents = new.extents,
       effects = iif(json_valid(effects), json_replace(effects, '$."' || :step_id || '"', generation), effects) -- on sqlite
       effects = jsonb_set(effects::jsonb, array[:step_id::text], to_jsonb(generation), false)::json -- on postgresql
  from rows(:documents) as new (id bigint, cursor json, extents json)
 where d.id = new.id
   and d.id in :documents_id::bigint[] -- on postgresql
