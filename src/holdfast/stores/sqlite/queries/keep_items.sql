-- What steps kept: JSON that is not big, which nearly all of it is.
insert into hf_item (document_id, generation, step_id, position, items, value, kept_at)
select column1, column2, column3, column4, column5, column6, ?
  from (values
       /* rows */ (?, ?, ?, ?, ?, ?)
       )
