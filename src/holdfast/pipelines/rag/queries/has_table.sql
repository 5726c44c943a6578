-- Return a row if there is a table of this name.
select 1
  from sqlite_master -- on sqlite
 where type = 'table' and name = :name -- on sqlite
 where to_regclass(:name) is not null -- on postgresql
