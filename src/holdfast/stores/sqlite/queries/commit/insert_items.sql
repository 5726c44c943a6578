-- Store items: JSON that is not large, as nearly all items are.
insert into hf_item (document_id, generation, step_id, position, items, value, kept_at)
select column1, column2, column3, column4, column5, column6, ?
  from (values
       /* rows */ (?, ?, ?, ?, ?, ?)
       )
