-- The moment by the database's clock.
select clock_timestamp()
