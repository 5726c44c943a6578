-- Pin documents that go on under another plan to the plan under which their work was done.
update hf_document
   set plan_id = :plan_id
 where id in :ids::bigint[]
