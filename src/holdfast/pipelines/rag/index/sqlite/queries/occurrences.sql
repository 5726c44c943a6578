-- In how many chunks a stemmed word occurs.
select term, doc from rag_word where term in (select value from json_each(:terms))
