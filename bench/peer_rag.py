"""Run document search under workload W5 of the shared harness: 2,000 texts to chunks to cheap vectors.

    HOLDFAST_PERF=... PERF_HOME=... python bench/peer_rag.py W5 --n 2000

It runs one process more than there are cores, with one thread each: while one writes, the others compute. PROCESSES=
sets another number.

All features of a user are on: extraction in child processes, a checkpoint for every page, full text beside the vectors.
All peers use the splitter and the embedder of the harness. The harness counts embedded chunks, and kills the
process when half of them are done.
"""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Iterator, Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any

from peer_holdfast import PERF  # noqa: F401 - it also makes the harness importable


def ingest(ctx: Any) -> None:
    import common as C  # noqa: N812

    import holdfast
    from holdfast.pipelines import rag

    first = os.getpid()

    class Cheap:
        name = "harness-256"
        dimension = C.DIM
        window = 256

        def embed(self, texts: Sequence[str]) -> Any:
            if os.getpid() != first:
                ctx.slots.use(1)  # another process needs its own slot
            ctx.slots.tick(len(texts))
            return C.embed_many(list(texts))

        def embed_query(self, text: str) -> Any:
            return C.embed_many([text])[0]

    def split(text: str) -> Iterator[tuple[int, int]]:
        """Find the positions of the pieces. The splitter joins some with other separators than the text has."""
        after = 0
        for piece in C.split_recursive(text):
            after = max(text.find(piece[:40], after), after) + 1
            yield after - 1, min(after - 1 + len(piece), len(text))

    with holdfast.open(f"sqlite:///{ctx.dir}/holdfast.db") as store:
        library = rag.Library(store, embedder=Cheap(), split=split)
        library.ingest(str(ctx.dir / "corpus"), threads=1, processes=int(os.environ.get("PROCESSES", "3")))


def count(ctx: Any) -> int:
    with sqlite3.connect(f"file:{ctx.dir}/holdfast.db?mode=ro", uri=True) as db:
        return int(
            db.execute(
                "select count(*) from rag_chunk c"
                " join rag_document d on d.id = c.document_id and d.version = c.version"
                " join rag_meaning m on m.document_id = d.id and m.version = d.version"
                " join rag_vector v on v.model_id = m.model_id and v.hash = c.hash"
            ).fetchone()[0]
        )


if __name__ == "__main__":
    import common as C  # noqa: N812

    # Peers were compiled at installation. A checkout is compiled by its first run, unless the shell forbids it.
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
    os.environ.setdefault("PYTHONPYCACHEPREFIX", str(C.PERF_HOME / "pycache"))
    here = str(Path(__file__).resolve())
    C.drive_w5("holdfast", version("holdfast-pipelines"), here, ingest, count, note="all features on")
