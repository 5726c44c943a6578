-- Return the time at which the transaction began, which is :now in its statements.
select :now
