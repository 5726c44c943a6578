-- Documents that go on under another plan are pinned to what they are really done under.
update hf_document
   set plan_id = :plan_id
 where id in (select value from json_each(:ids))
