-- Return true if a step worked for a document after another one first failed there because of its service. A time in the
-- future says nothing: a clock was set back.
select exists (select 1
                 from hf_step_time p
                 join hf_document d on d.id = :document_id
                where p.step_id = :step_id
                  and p.worked_at <= :now
                  and p.worked_at > (select min(case when j.at >= d.moved_at then j.at else j.last_at end)
                                       from hf_journal j
                                      where j.document_id = d.id
                                        and (j.verb, j.code) in (('fail', :service_failed), ('defer', :circuit_open))
                                        and j.generation = d.generation
                                        and coalesce(j.last_at, j.at) >= d.moved_at))
