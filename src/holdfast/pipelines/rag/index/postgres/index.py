"""The index in PostgreSQL, in the database of the checkpoints: full text by tsvector, vectors by pgvector."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from msgspec.structs import asdict, replace

from holdfast.core.codec import encode_json
from holdfast.core.errors import StoreError
from holdfast.core.moves import Tx
from holdfast.pipelines.rag.index.keyword_query import (
    KeywordQuery,
    covered_share,
    keyword_query,
    title_patterns,
    title_terms,
)
from holdfast.pipelines.rag.index.postgres.globs import glob_to_regex
from holdfast.pipelines.rag.index.postgres.keyword_query import (
    Vocabulary,
    allowed_expression,
    run_params,
    search_params,
    word_vector,
)
from holdfast.pipelines.rag.index.postgres.schema import SQL, create_tables, require_model_id
from holdfast.pipelines.rag.index.postgres.word_tables import PostgresWordTables
from holdfast.pipelines.rag.index.question import Question
from holdfast.pipelines.rag.index.values import (
    ChunkKey,
    DocumentName,
    EmbeddingModel,
    Hit,
    IndexEntry,
    StoredChunk,
    VersionVectors,
    Where,
    page_rows,
    require_document,
    storable_text,
)
from holdfast.pipelines.rag.index.words_rebuild import DetectLanguage, rebuild_next, require_current_words
from holdfast.pipelines.rag.sql_statements import fill
from holdfast.pipelines.rag.values import Chunk
from holdfast.stores.postgres.connection import Connections, Db

if TYPE_CHECKING:
    import numpy as np

MAX_COMPARED = 5000
"""If a search looks at fewer chunks than this, all are compared. Otherwise the vector index is used."""
EF_SEARCH, MAX_EF_SEARCH = 200, 1000
"""Candidates that a search of the vector index keeps (pgvector's hnsw.ef_search): at least, and at most."""
_ESCAPED_NUL = re.compile(r"(?<!\\)((?:\\\\)*)\\u0000")
"""NUL in JSON. PostgreSQL cannot store it in jsonb."""


class PostgresIndex:
    """The index of a PostgreSQL store."""

    def __init__(self, url: str) -> None:
        self._db = Connections(url)
        self._model_ids: dict[EmbeddingModel, int] = {}
        self._vocabulary = Vocabulary()

    def create_tables(self, tx: Tx) -> None:
        create_tables(tx)

    def require_current_words(self, tx: Tx) -> None:
        require_current_words(tx, SQL)

    def rebuild_words(self, tx: Tx, detect: DetectLanguage) -> int:
        return rebuild_next(tx, SQL, PostgresWordTables(), detect)

    # writing

    def add_chunks(self, tx: Tx, entry: IndexEntry, chunks: Sequence[Chunk]) -> None:
        version = {"document_id": self._require_document_id(tx, entry), "version": entry.version}
        language = self._language(tx, entry, version["document_id"])
        columns = {
            "pages": [chunk.page for chunk in chunks],
            "starts": [chunk.start for chunk in chunks],
            "stops": [chunk.end for chunk in chunks],
            "hashes": [chunk.hash for chunk in chunks],
            "texts": [storable_text(chunk.text) for chunk in chunks],
            "words": [word_vector(chunk.text, chunk.title, language) for chunk in chunks],
        }
        tx.execute(SQL["add_chunks"], version | columns)
        if pages := page_rows(version["document_id"], entry.version, chunks):
            tx.executemany(SQL["add_page"], pages)
        if chunks and chunks[-1].last:
            tx.execute(SQL["mark_chunked"], version)

    def _require_document_id(self, tx: Tx, entry: IndexEntry) -> int:
        if entry.about is None:
            return require_document(self._find(tx, entry.name), entry.name)[0]
        terms = title_terms(entry.about.title, entry.about.language)
        coming = encode_json(
            asdict(entry.about) | {"metadata": entry.metadata, "version": entry.version, "title_terms": terms}
        )
        params = asdict(entry.name) | {"coming": _without_nul(coming)}
        return require_document(tx.execute(SQL["add_document"], params).fetchone(), entry.name)[0]

    def _language(self, tx: Tx, entry: IndexEntry, document: int) -> str:
        """Return the language of a version. The first chunks say it, and it is stored for the others."""
        if entry.about is None:
            return str(tx.execute(SQL["coming_language"], {"document_id": document}).fetchone()[0])
        if entry.about.language:
            tx.execute(SQL["add_language"], {"language": entry.about.language})
        return entry.about.language

    def save_vectors(self, tx: Tx, model: EmbeddingModel, vectors: Mapping[bytes, bytes]) -> None:
        if vectors:
            columns = {"hashes": [*vectors], "vectors": [_literal(vector) for vector in vectors.values()]}
            tx.execute(fill(SQL["save_vectors"], model_id=require_model_id(tx, model)), columns)

    # an external vector store: this index has none

    def check_reachable(self, collection: str, *, model: EmbeddingModel) -> None:
        pass

    def upload(self, name: DocumentName, *, model: EmbeddingModel) -> None:
        pass

    def upload_missing(self, collection: str, *, model: EmbeddingModel) -> int:  # noqa: ARG002
        return 0

    def maintain(self, collection: str, *, model: EmbeddingModel) -> None:
        pass

    # what searches see

    def make_visible(self, tx: Tx, name: DocumentName, *, model: EmbeddingModel) -> None:
        row = self._find(tx, name)
        document = {"document_id": row[0] if row else None}
        visible = tx.execute(SQL["make_visible"], document).fetchone()
        if visible is None:
            return  # the document had no text, so it has no chunk
        version = document | {"version": visible[0]}
        tx.execute(SQL["mark_embedded"], version | {"model_id": require_model_id(tx, model)})
        _delete_other_versions(tx, version)

    def delete_document(self, tx: Tx, name: DocumentName) -> None:
        row = self._find(tx, name)
        if row is None:
            return
        params = {"document_id": row[0], "version": None}
        tx.execute(SQL["delete_embedded_marks"], params)
        _delete_other_versions(tx, params)
        tx.execute(SQL["delete_document"], params)

    def rename_document(self, tx: Tx, name: DocumentName, *, to: str) -> None:
        row = self._find(tx, name)
        if row is None or to == name.key:
            return
        self.delete_document(tx, replace(name, key=to))
        tx.execute(SQL["rename_document"], {"document_id": row[0], "key": to})

    def _find(self, tx: Tx, name: DocumentName) -> Any:
        return tx.execute(SQL["find_document"], asdict(name)).fetchone()

    # reading

    def known_hashes(self, model: EmbeddingModel, hashes: Sequence[bytes]) -> set[bytes]:
        model_id = self._model_id(model)
        if model_id is None or not hashes:
            return set()
        return {row[0] for row in self._rows(fill(SQL["known_hashes"], model_id=model_id), {"hashes": list(hashes)})}

    def has_words(self, name: DocumentName, *, chunks: int) -> bool:
        return not chunks or self._count(SQL["count_chunks_with_words"], asdict(name)) == chunks

    def has_vectors(self, name: DocumentName, *, model: EmbeddingModel, chunks: int) -> bool:
        model_id = self._model_id(model)
        if not chunks or model_id is None:
            return not chunks
        return self._count(fill(SQL["count_chunks_with_vectors"], model_id=model_id), asdict(name)) >= chunks

    def is_visible(self, name: DocumentName, *, model: EmbeddingModel, chunks: int) -> bool:
        params = asdict(name) | {"model_id": self._model_id(model)}
        return not chunks or self._count(SQL["count_visible"], params) == 1

    def _count(self, statement: str, params: dict[str, Any]) -> int:
        return int(self._rows(statement, params)[0][0])

    def has_all_vectors(self, collection: str, *, model: EmbeddingModel) -> bool:
        return bool(self.read("has_all_vectors", collection=collection, model_id=self._model_id(model))[0][0])

    def search_words(self, question: Question, where: Where, *, limit: int) -> list[Hit]:
        conditions, query = self._conditions(where), self._query(question)

        def search(db: Db) -> list[Hit]:
            hits: list[Hit] = []
            for words in search_params(db, query, self._vocabulary, enough=limit):
                statement = SQL["search_words"].with_conditions(conditions)
                rows = db.execute(statement, conditions | words | {"limit": limit}).fetchall()
                hits = [Hit(*row) for row in rows]
                if len(hits) == limit or not (conditions or query.excluded):
                    break  # with a filter, the rare words may all be in documents that are filtered out
            return hits

        return self._db.reading(search)

    def search_runs(self, question: Question, where: Where, *, limit: int) -> list[Hit]:
        conditions, query = self._conditions(where), self._query(question)

        def search(db: Db) -> list[Hit]:
            params = run_params(db, query, self._vocabulary)
            if params is None:
                return []
            statement = SQL["search_runs"].with_conditions(conditions)
            rows = db.execute(statement, conditions | params | {"limit": limit}).fetchall()
            return [Hit(chunk, document, covered_share(query, found)) for chunk, document, found in rows]

        return self._db.reading(search)

    def chunks_allowed(self, question: Question, chunks: Sequence[int]) -> set[int]:
        query = self._query(question)
        expression = allowed_expression(query.phrases, query.excluded)
        if not expression:
            return set(chunks)
        return {row[0] for row in self.read("chunks_with_terms", ids=list(chunks), expression=expression)}

    def _query(self, question: Question) -> KeywordQuery:
        return keyword_query(question, self.languages())

    def languages(self) -> list[str]:
        return [row[0] for row in self.read("languages")]

    def search_vectors(self, model: EmbeddingModel, vector: np.ndarray, where: Where, *, limit: int) -> list[Hit]:
        model_id = self._model_id(model)
        if model_id is None:
            return []
        conditions = self._conditions(where)
        params = conditions | {"vector": _vector_literal(vector.tolist()), "model_id": model_id, "limit": limit}

        def search(db: Db) -> list[Hit]:
            if conditions and self._count_matching(db, conditions) < MAX_COMPARED:
                statement = SQL["search_vectors_exactly"]
            else:
                statement = SQL["search_vectors"]
                ef_search = min(max(EF_SEARCH, 2 * limit), MAX_EF_SEARCH)
                db.execute(fill(SQL["set_scan_options"], ef_search=ef_search))
            rows = db.execute(fill(statement.with_conditions(conditions), model_id=model_id), params).fetchall()
            return [Hit(*row) for row in rows]

        return self._db.reading_one_moment(search)

    def _count_matching(self, db: Db, conditions: dict[str, Any]) -> int:
        statement = SQL["count_matching_chunks"].with_conditions(conditions)
        return int(db.execute(statement, conditions | {"most": MAX_COMPARED}).fetchall()[0][0])

    def vectors(self, model: EmbeddingModel, chunks: Sequence[int]) -> dict[int, bytes]:
        model_id = self._model_id(model)
        if model_id is None:
            return {}
        rows = self._rows(fill(SQL["vectors"], model_id=model_id), {"ids": list(chunks)}, binary=True)
        return {chunk: _float16_bytes(vector, model) for chunk, vector in rows}

    def chunks(self, ids: Sequence[int]) -> dict[int, StoredChunk]:
        return {
            chunk_id: StoredChunk(DocumentName(collection, source, key), *rest)
            for chunk_id, collection, source, key, *rest in self.read("chunks", ids=list(ids))
        }

    def close(self) -> None:
        self._db.close()

    # for an index with an external vector store

    def document_id(self, name: DocumentName) -> int | None:
        rows = self.read("find_document", **asdict(name))
        return rows[0][0] if rows else None

    def names_with_prefix(self, name: DocumentName) -> list[DocumentName]:
        return [replace(name, key=key) for (key,) in self.read("names_with_prefix", **asdict(name))]

    def latest_vectors(self, name: DocumentName, *, model: EmbeddingModel) -> VersionVectors | None:
        rows = self.read("find_document", **asdict(name))
        if not rows or rows[0][2] is None:
            return None
        document_id, _, latest = rows[0]
        return self.version_vectors(document_id, latest, model=model)

    def mark_embedded(self, tx: Tx, document: int, version: int, *, model: EmbeddingModel) -> None:
        params = {"document_id": document, "version": version}
        if tx.execute(SQL["lock_visible_version"], params).fetchone():
            tx.execute(SQL["mark_embedded"], params | {"model_id": require_model_id(tx, model)})

    def version_vectors(self, document: int, version: int, *, model: EmbeddingModel) -> VersionVectors:
        model_id = self._model_id(model)
        if model_id is None:
            return VersionVectors(document, version, [])
        params = {"document_id": document, "version": version}
        rows = self._rows(fill(SQL["version_vectors"], model_id=model_id), params, binary=True)
        chunks = [(*chunk, _float16_bytes(vector, model)) for *chunk, vector in rows]
        return VersionVectors(document, version, chunks)

    def visible_chunks(self, model: EmbeddingModel, keys: Sequence[ChunkKey]) -> dict[ChunkKey, int]:
        documents, versions, positions = zip(*keys, strict=True) if keys else ((), (), ())
        params = {"documents": [*documents], "versions": [*versions], "positions": [*positions]}
        rows = self.read("visible_chunks", model_id=self._model_id(model), **params)
        return {(document, version, position): chunk for document, version, position, chunk in rows}

    def live_versions(self, documents: Sequence[int]) -> dict[int, set[int]]:
        rows = self.read("live_versions", documents=list(documents))
        return {document: {one for one in versions if one is not None} for document, *versions in rows}

    def matching_documents(self, where: Where) -> list[int]:
        params = where.params()
        if "path" in params:
            params["path"] = glob_to_regex(params["path"])
        if "paths" in params:
            params["paths"] = [glob_to_regex(path) for path in params["paths"]]
        if "titles" in params:
            params["titles"] = encode_json(title_patterns(params["titles"], self.languages()))
        if "metadata" in params:
            params["metadata"] = _without_nul(params["metadata"])
        return [row[0] for row in self._rows(SQL["matching_documents"].with_conditions(params), params)]

    def read(self, statement: str, **params: Any) -> list[Any]:
        return self._rows(SQL[statement], params)

    # garbage collection

    def unused_hashes(self, model: EmbeddingModel, *, after: bytes, limit: int) -> list[bytes]:
        model_id = self._model_id(model)
        if model_id is None:
            return []
        statement = fill(SQL["unused_hashes"], model_id=model_id)
        return [row[0] for row in self._rows(statement, {"after": after, "limit": limit})]

    def delete_vectors(self, tx: Tx, model: EmbeddingModel, hashes: Sequence[bytes]) -> int:
        tx.execute(SQL["lock_chunks"])
        statement = fill(SQL["delete_vectors"], model_id=require_model_id(tx, model))
        return int(tx.execute(statement, {"hashes": list(hashes)}).rowcount)

    def missing_documents(self, *, limit: int) -> list[int]:
        return [row[0] for row in self.read("missing_documents", limit=limit)]

    def delete_missing(self, tx: Tx, document: int) -> None:
        params = {"document_id": document, "version": None}
        if not tx.execute(SQL["document_exists"], params).fetchone():
            tx.execute(SQL["delete_embedded_marks"], params)
            _delete_other_versions(tx, params)

    def _conditions(self, where: Where) -> dict[str, Any]:
        """Return the conditions of a search: none, a collection, or the documents to look at."""
        return {"documents": self.matching_documents(where)} if where.filters_documents else where.params()

    def _model_id(self, model: EmbeddingModel) -> int | None:
        """Return the id of a model if it is committed. Ids never change."""
        if model not in self._model_ids:
            rows = self.read("find_model", name=model.name)
            if not rows:
                return None
            self._model_ids[model] = rows[0][0]
        return self._model_ids[model]

    def _rows(self, statement: str, params: Mapping[str, Any], *, binary: bool = False) -> list[tuple[Any, ...]]:
        def fetch(db: Db) -> list[tuple[Any, ...]]:
            return db.execute(statement, params, binary=binary).fetchall()

        return self._db.reading(fetch)


def _delete_other_versions(tx: Tx, version: Mapping[str, Any]) -> None:
    tx.execute(SQL["delete_other_chunks"], version)
    tx.execute(SQL["delete_other_pages"], version)


def _without_nul(json: str) -> str:
    return _ESCAPED_NUL.sub(r"\1\\ufffd", json)


def _literal(vector: bytes) -> str:
    import numpy as np

    return _vector_literal(np.frombuffer(vector, "<f2").tolist())


def _vector_literal(values: Sequence[float]) -> str:
    return f"[{','.join(map(str, values))}]"


def _float16_bytes(received: bytes, model: EmbeddingModel) -> bytes:
    """Convert a vector in pgvector's binary format: a header of four bytes, then big-endian 16-bit floats.

    Any bytes could be read as floats, so a vector of another type or length is refused.
    """
    import numpy as np

    expected = 4 + 2 * model.dimension
    if len(received) != expected:
        raise StoreError(
            f"a vector of {model.name} has {len(received):,} bytes in the database, and {expected:,} were expected "
            f"({model.dimension:,} 16-bit numbers): the table of its vectors was changed"
        )
    return np.frombuffer(received, ">f2", offset=4).astype("<f2").tobytes()
