-- Set how thoroughly the vector index is searched, and continue the search while a filter leaves too few results.
set local hnsw.ef_search = {ef_search};
set local hnsw.iterative_scan = 'strict_order';
set local hnsw.max_scan_tuples = 50000
