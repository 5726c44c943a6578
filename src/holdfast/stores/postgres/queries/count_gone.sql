-- Documents that were cleaned up are still counted.
update hf_batch
   set gone_done = gone_done + %(done)s, gone_dead = gone_dead + %(dead)s, gone_cancelled = gone_cancelled + %(cancelled)s
 where id = %(batch_id)s
