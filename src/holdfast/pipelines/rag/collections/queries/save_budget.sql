-- Save the budget of a collection. What it has spent stays.
insert into rag_budget (collection, limits)
values (:collection, :limits)
on conflict (collection) do update
   set limits = excluded.limits
