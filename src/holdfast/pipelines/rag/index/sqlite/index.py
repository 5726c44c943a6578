"""The index in SQLite, in the file of the checkpoints: full text by FTS5, vectors as rows, searched in memory."""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from msgspec.structs import asdict, replace

from holdfast.core.codec import decode_json, encode_json
from holdfast.core.moves import Tx
from holdfast.pipelines.rag.index.keyword_query import (
    KeywordQuery,
    any_phrase,
    covered_share,
    has_run,
    keyword_query,
    match_expressions,
    selecting_runs,
    title_patterns,
    title_terms,
)
from holdfast.pipelines.rag.index.question import Question
from holdfast.pipelines.rag.index.sqlite.connections import ReadConnections
from holdfast.pipelines.rag.index.sqlite.word_tables import SqliteWordTables, add_missing_columns, record_version
from holdfast.pipelines.rag.index.tokenizer import terms_of
from holdfast.pipelines.rag.index.values import (
    ChunkKey,
    DocumentName,
    EmbeddingModel,
    Hit,
    IndexEntry,
    StoredChunk,
    VersionVectors,
    Where,
    check_dimension,
    page_rows,
    require_document,
)
from holdfast.pipelines.rag.index.words_rebuild import DetectLanguage, rebuild_next, require_current_words
from holdfast.pipelines.rag.sql_statements import index_statements
from holdfast.pipelines.rag.values import Chunk, DocumentInfo
from holdfast.stores import files_of
from holdfast.stores.sql.query_files import in_statements

if TYPE_CHECKING:
    import numpy as np

    from holdfast.pipelines.rag.index.sqlite.vector_scan import VectorCache

SCHEMA = Path(__file__).parent / "schema.sql"
SQL = index_statements("sqlite")
COMMON_WORD = 500
"""A word that occurs in more chunks than this is common. Its count is cached: counting takes long."""
MAX_CACHED_CHANGES = 500
"""Changes of documents after which the counts of common words are read again."""


class SqliteIndex:
    """The index of a SQLite store. It needs no server."""

    def __init__(self, url: str) -> None:
        self._connections = ReadConnections(files_of(url)[0])
        self._lock = threading.Lock()
        self._model_ids: dict[EmbeddingModel, int] = {}
        self._vectors: dict[int, VectorCache] = {}
        self._common_words: dict[str, int] = {}
        self._common_words_read_at = 0

    def create_tables(self, tx: Tx) -> None:
        add_missing_columns(tx)
        for statement in SCHEMA.read_text().split(";\n"):
            tx.execute(statement)
        record_version(tx)

    def require_current_words(self, tx: Tx) -> None:
        require_current_words(tx, SQL)

    def rebuild_words(self, tx: Tx, detect: DetectLanguage) -> int:
        return rebuild_next(tx, SQL, SqliteWordTables(), detect)

    # writing

    def add_chunks(self, tx: Tx, entry: IndexEntry, chunks: Sequence[Chunk]) -> None:
        if entry.about is not None:
            self._add_document(tx, entry, entry.about)
        params = asdict(entry.name) | {"version": entry.version}
        row = tx.execute(SQL["next_chunk"], params).fetchone()
        document_id, last_id, first_position, *_ = require_document(row, entry.name)
        language = str(row[3])
        if entry.about is not None and language:
            tx.execute(SQL["add_language"], {"language": language})
        rows: list[Any] = []
        words: list[Any] = []
        for chunk_id, (position, chunk) in enumerate(enumerate(chunks, first_position), last_id + 1):
            rows += (chunk_id, document_id, entry.version, position, chunk.page, chunk.start, chunk.end, chunk.hash)
            words.append(
                (chunk_id, *(" ".join(terms_of(text, language)) for text in (chunk.text, chunk.title)), chunk.text)
            )
        _write_rows(tx, "add_chunk", rows, width=8)
        tx.executemany(SQL["add_words"], words)
        if pages := page_rows(document_id, entry.version, chunks):
            tx.executemany(SQL["add_page"], pages)
        if chunks and chunks[-1].last:
            tx.execute(SQL["mark_chunked"], {"document_id": document_id, "version": entry.version})

    def _add_document(self, tx: Tx, entry: IndexEntry, about: DocumentInfo) -> None:
        terms = title_terms(about.title, about.language)
        coming = encode_json(
            asdict(about) | {"metadata": entry.metadata, "version": entry.version, "title_terms": terms}
        )
        tx.execute(SQL["add_document"], asdict(entry.name) | {"coming": coming})

    def save_vectors(self, tx: Tx, model: EmbeddingModel, vectors: Mapping[bytes, bytes]) -> None:
        model_id = self._require_model_id(tx, model)
        rows = [value for content, vector in vectors.items() for value in (model_id, content, vector)]
        _write_rows(tx, "save_vectors", rows, width=3)

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
        row = tx.execute(SQL["latest_version"], asdict(name)).fetchone()
        if row is None:
            return  # the document had no text, so it has no chunk
        document_id, version, has_other_versions = row
        tx.execute(SQL["make_visible"], {"document_id": document_id})
        model_id = self._require_model_id(tx, model)
        tx.execute(SQL["mark_embedded"], {"document_id": document_id, "model_id": model_id, "version": version})
        if has_other_versions:
            self._delete_versions_except(tx, document_id, version)

    def delete_document(self, tx: Tx, name: DocumentName) -> None:
        row = self._find(tx, name)
        if row is None:
            return
        params = {"document_id": row[0]}
        tx.execute(SQL["delete_document"], params)
        tx.execute(SQL["delete_embedded_marks"], params)
        self._delete_versions_except(tx, row[0], None)

    def rename_document(self, tx: Tx, name: DocumentName, *, to: str) -> None:
        row = self._find(tx, name)
        if row is None or to == name.key:
            return
        self.delete_document(tx, replace(name, key=to))
        tx.execute(SQL["rename_document"], {"document_id": row[0], "key": to})

    def _find(self, tx: Tx, name: DocumentName) -> Any:
        return tx.execute(SQL["find_document"], asdict(name)).fetchone()

    def _delete_versions_except(self, tx: Tx, document_id: int, version: int | None) -> None:
        params = {"document_id": document_id, "version": version}
        tx.execute(SQL["delete_other_words"], params)
        tx.execute(SQL["delete_other_chunks"], params)
        tx.execute(SQL["delete_other_pages"], params)

    def _require_model_id(self, tx: Tx, model: EmbeddingModel) -> int:
        """Return the id of a model; add it if it is new. An id is cached only once it is committed."""
        if model in self._model_ids:
            return self._model_ids[model]
        params = asdict(model)
        row = tx.execute(SQL["find_model"], params).fetchone() or tx.execute(SQL["add_model"], params).fetchone()
        model_id, dimension = row
        check_dimension(model, dimension)
        return int(model_id)

    # reading

    def known_hashes(self, model: EmbeddingModel, hashes: Sequence[bytes]) -> set[bytes]:
        model_id = self._model_id(model)
        if model_id is None or not hashes:
            return set()
        rows = self._db.execute(SQL["known_hashes"].for_rows(len(hashes)), [model_id, *hashes]).fetchall()
        return {row[0] for row in rows}

    def has_words(self, name: DocumentName, *, chunks: int) -> bool:
        return not chunks or self._count("count_chunks_with_words", name) == chunks

    def has_vectors(self, name: DocumentName, *, model: EmbeddingModel, chunks: int) -> bool:
        return not chunks or self._count("count_chunks_with_vectors", name, model_id=self._model_id(model)) >= chunks

    def is_visible(self, name: DocumentName, *, model: EmbeddingModel, chunks: int) -> bool:
        return not chunks or self._count("count_visible", name, model_id=self._model_id(model)) == 1

    def _count(self, query: str, name: DocumentName, **params: Any) -> int:
        return int(self.read(query, **asdict(name), **params)[0][0])

    def has_all_vectors(self, collection: str, *, model: EmbeddingModel) -> bool:
        return bool(self.read("has_all_vectors", collection=collection, model_id=self._model_id(model))[0][0])

    def search_words(self, question: Question, where: Where, *, limit: int) -> list[Hit]:
        params = self._conditions(where) | {"limit": limit}
        hits: list[Hit] = []
        for expression in match_expressions(self._query(question), self._count_words, enough=limit):
            statement = SQL["search_words"].with_conditions(params)
            rows = self._connections.for_search.execute(statement, params | {"words": expression}).fetchall()
            hits = [Hit(*row) for row in rows]
            if len(hits) == limit or (len(params) == 1 and not question.excluded):
                break  # with a filter, the rare words may all be in documents that are filtered out
        return hits

    def search_runs(self, question: Question, where: Where, *, limit: int) -> list[Hit]:
        query = self._query(question)
        runs = selecting_runs(query, self._count_words)
        if not runs:
            return []
        params = self._conditions(where) | {"limit": limit, "runs": any_phrase(runs)}
        statement = SQL["search_runs"].with_conditions(params)
        rows = self._connections.for_search.execute(statement, params).fetchall()
        return [
            Hit(chunk, document, covered_share(query, [has_run(run, terms) for run in query.runs]))
            for chunk, document, terms in rows
        ]

    def chunks_allowed(self, question: Question, chunks: Sequence[int]) -> set[int]:
        query = self._query(question)
        ids = encode_json(list(chunks))
        allowed = set(chunks)
        for phrases in query.phrases:
            allowed &= self._matching(any_phrase(phrases), ids)
        for phrases in query.excluded:
            allowed -= self._matching(any_phrase(phrases), ids)
        return allowed

    def _matching(self, expression: str, ids: str) -> set[int]:
        params = {"expression": expression, "ids": ids}
        rows = self._connections.for_search.execute(SQL["chunks_with_terms"], params).fetchall()
        return {row[0] for row in rows}

    def _conditions(self, where: Where) -> dict[str, Any]:
        """Return the conditions of a search: none, a collection, or the documents to look at."""
        if where.filters_documents:
            return {"documents": encode_json(self.matching_documents(where))}
        return where.params()

    def _query(self, question: Question) -> KeywordQuery:
        return keyword_query(question, self.languages())

    def languages(self) -> list[str]:
        return [row[0] for row in self._connections.for_search.execute(SQL["languages"]).fetchall()]

    def search_vectors(self, model: EmbeddingModel, vector: np.ndarray, where: Where, *, limit: int) -> list[Hit]:
        model_id = self._model_id(model)
        if model_id is None:
            return []
        with self._lock:
            if model_id not in self._vectors:
                from holdfast.pipelines.rag.index.sqlite.vector_scan import VectorCache

                self._vectors[model_id] = VectorCache(model_id, model.dimension)
            cache = self._vectors[model_id]
        db = self._connections.for_search
        if where.filters_documents:
            return cache.nearest(db, vector, limit=limit, documents=self.matching_documents(where))
        if where.collection:
            return cache.nearest(db, vector, limit=limit, collection=self._collection_id(where))
        return cache.nearest(db, vector, limit=limit)

    def vectors(self, model: EmbeddingModel, chunks: Sequence[int]) -> dict[int, bytes]:
        params = {"model_id": self._model_id(model), "ids": encode_json(list(chunks))}
        return dict(self._connections.for_search.execute(SQL["vectors"], params).fetchall())

    def chunks(self, ids: Sequence[int]) -> dict[int, StoredChunk]:
        rows = self._connections.for_search.execute(SQL["chunks"], {"ids": encode_json(list(ids))}).fetchall()
        return {
            chunk_id: StoredChunk(
                DocumentName(collection, source, key), kind, title, decode_json(metadata), decode_json(page), *place
            )
            for chunk_id, collection, source, key, kind, title, metadata, page, *place in rows
        }

    def close(self) -> None:
        self._connections.close()
        with self._lock:
            self._vectors.clear()

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
        if tx.execute(SQL["announce_version"], params).rowcount:
            tx.execute(SQL["mark_embedded"], params | {"model_id": self._require_model_id(tx, model)})

    def version_vectors(self, document: int, version: int, *, model: EmbeddingModel) -> VersionVectors:
        params = {"document_id": document, "version": version, "model_id": self._model_id(model)}
        return VersionVectors(document, version, self.read("version_vectors", **params))

    def visible_chunks(self, model: EmbeddingModel, keys: Sequence[ChunkKey]) -> dict[ChunkKey, int]:
        rows = self.read("visible_chunks", model_id=self._model_id(model), keys=encode_json(keys))
        return {(document, version, position): chunk for document, version, position, chunk in rows}

    def live_versions(self, documents: Sequence[int]) -> dict[int, set[int]]:
        rows = self.read("live_versions", documents=encode_json(list(documents)))
        return {document: {one for one in versions if one is not None} for document, *versions in rows}

    def matching_documents(self, where: Where) -> list[int]:
        params = where.params()
        if where.titles:
            params["titles"] = title_patterns(params["titles"], self.languages())
        params = {name: encode_json(value) if isinstance(value, list) else value for name, value in params.items()}
        return [
            row[0] for row in self._db.execute(SQL["matching_documents"].with_conditions(params), params).fetchall()
        ]

    def read(self, statement: str, **params: Any) -> list[Any]:
        return self._db.execute(SQL[statement], params).fetchall()

    # garbage collection

    def unused_hashes(self, model: EmbeddingModel, *, after: bytes, limit: int) -> list[bytes]:
        rows = self.read("unused_hashes", model_id=self._model_id(model), after=after, limit=limit)
        return [row[0] for row in rows]

    def delete_vectors(self, tx: Tx, model: EmbeddingModel, hashes: Sequence[bytes]) -> int:
        params = [self._require_model_id(tx, model), *hashes]
        return int(tx.execute(SQL["delete_vectors"].for_rows(len(hashes)), params).rowcount)

    def missing_documents(self, *, limit: int) -> list[int]:
        return [row[0] for row in self.read("missing_documents", limit=limit)]

    def delete_missing(self, tx: Tx, document: int) -> None:
        params = {"document_id": document}
        if not tx.execute(SQL["document_exists"], params).fetchone():
            tx.execute(SQL["delete_embedded_marks"], params)
            self._delete_versions_except(tx, document, None)

    def _collection_id(self, where: Where) -> int:
        rows = self.read("find_collection", **where.params())
        return rows[0][0] if rows else -1

    def _count_words(self, stems: Sequence[str]) -> dict[str, int]:
        """Count the chunks that have a word, by the stem of the word. Counts of common words are cached for a while."""
        db = self._connections.for_search
        ((last_change,),) = db.execute(SQL["last_change"]).fetchall()
        if last_change > self._common_words_read_at + MAX_CACHED_CHANGES:
            self._common_words, self._common_words_read_at = {}, last_change
        common = self._common_words
        unknown = [stem for stem in stems if stem not in common]
        counts = dict(db.execute(SQL["count_words"], {"stems": encode_json(unknown)}).fetchall())
        common |= {stem: count for stem, count in counts.items() if count > COMMON_WORD}
        return counts | {stem: common[stem] for stem in stems if stem in common}

    def _model_id(self, model: EmbeddingModel) -> int | None:
        """Return the id of a model if it is committed with this dimension."""
        if model not in self._model_ids:
            rows = self.read("find_model", name=model.name)
            if not rows or rows[0][1] != model.dimension:
                return None
            self._model_ids[model] = rows[0][0]
        return self._model_ids[model]

    @property
    def _db(self) -> sqlite3.Connection:
        return self._connections.current


def _write_rows(tx: Tx, statement: str, rows: Sequence[Any], *, width: int) -> None:
    """Write many rows in few statements: between two statements another thread may delay the commit."""
    for text, params in in_statements(SQL[statement], (), rows, width):
        tx.execute(text, params)
