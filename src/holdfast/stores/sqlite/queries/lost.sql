-- Which of these claims are held no more: another fence, or nobody holds the document.
select c.value ->> 0
  from json_each(:claims) c
  left join hf_document d on d.id = c.value ->> 0 and d.fence = c.value ->> 1 and d.state = 'running'
 where d.id is null
