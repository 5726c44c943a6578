-- Return the time by the database's clock.
select clock_timestamp()
