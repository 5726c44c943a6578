-- A batch expects every document that was ever submitted to it.
update hf_batch
   set expected = expected + %(count)s
 where id = %(batch_id)s
