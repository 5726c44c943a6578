-- Find chunks by their keys, if vector searches may find them.
select c.document_id, c.version, c.position, c.id
  from json_each(:keys) k
  join rag_chunk c on c.document_id = json_extract(k.value, '$[0]')
                  and c.version = json_extract(k.value, '$[1]')
                  and c.position = json_extract(k.value, '$[2]')
  join rag_document d on d.id = c.document_id and d.version = c.version
  join rag_meaning m on m.document_id = d.id and m.model_id = :model_id and m.version = d.version
