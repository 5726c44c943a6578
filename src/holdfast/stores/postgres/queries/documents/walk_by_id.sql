-- Walk on in the order of ids to find a slice. Without statistics PostgreSQL would sort all documents for each slice.
set local enable_sort = off
