-- Create the table of shared rate limits: when the next request may start, and how far ahead of now that may be.
create table if not exists rag_meter (
    name    text primary key,
    next_at double precision not null,
    ahead   double precision not null
)
