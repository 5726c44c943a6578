-- Where the document with this number stands.
select *
  from hf_standing
 where id = :id
