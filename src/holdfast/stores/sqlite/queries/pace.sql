-- What the bodies of steps took since the last time, added to their history.
insert into hf_pace (step_id, documents, seconds)
select value ->> 0, value ->> 1, value ->> 2
  from json_each(:spent)
 where true
    on conflict (step_id) do update
   set documents = documents + excluded.documents, seconds = seconds + excluded.seconds
