"""Document search from end to end: settings as people type them, and letters with whatever they carry."""

from __future__ import annotations

import shutil
from contextlib import chdir, closing
from typing import Any

import pytest
from click.testing import CliRunner
from hypothesis import strategies as st

pytest.importorskip("numpy", reason="document search needs the extra rag")
pytest.importorskip("oxmsg", reason="document search needs the extra rag")

from holdfast.cli.app import app
from holdfast.pipelines import rag
from holdfast.pipelines.rag.embedders import embedder_named
from tests.fuzz.inputs import room, texts
from tests.fuzz.target import takes
from tests.fuzz.targets.documents import MAIL
from tests.fuzz.targets.urls import ended
from tests.fuzz.targets.values import _fresh
from tests.fuzz.targets.words import SAID

NAME = st.sampled_from(("documents", "a", "A", "a" * 65, "-a", "")) | texts
SPEC = st.one_of(
    st.sampled_from(("granite", "hash:8", "hash:", "hash:0", "hash:²", "hash:" + "9" * 12, "hash:" + "9" * 5000)),
    st.sampled_from(
        ("openai:", "ollama:a", "azure:\0", "store", "qdrant:", "qdrant:x", "qdrant:http://a@b", "http://")
    ),
    texts,
)
OPTIONS = ("--size", "--overlap", "--split", "--embedder", "--requests", "--tokens", "--index", "--reader", "--at-once")


@takes(
    st.tuples(
        st.sampled_from(("create", "configure")),
        NAME,
        st.lists(st.tuples(st.sampled_from(OPTIONS), SAID | SPEC), max_size=4),
    ),
    "A collection is made or changed as it was said, or there is a sentence that says what can be.",
)
def settings(given: tuple[str, str, list[tuple[str, str]]]) -> None:
    verb, name, options = given
    words = [word for option in options for word in option]
    _fresh(room() / "settings.db").close()
    with chdir(room()):
        runner = CliRunner()
        store = ["--store", "sqlite:///settings.db"]
        ended(runner.invoke(app, ["collection", "create", "documents", *store], prog_name="holdfast"))
        ended(runner.invoke(app, ["collection", verb, name, *words, *store], prog_name="holdfast"))
        ended(runner.invoke(app, ["collection", "list", *store], prog_name="holdfast"))


@takes(
    SPEC,
    "What is named as an embedder is one, whose vectors fit into memory, or ValueError says which there are.",
    refusals=[ValueError],
)
def embedders(spec: str) -> None:
    if spec.startswith("hash"):
        assert embedder_named(spec).embed_query("tides and ebbs").nbytes < 1 << 20


FILE = st.tuples(texts, st.sampled_from(("", ".txt", ".eml", "#", "#0", "/", "\\", ".pdf")), st.binary(max_size=20))


@takes(
    st.tuples(texts, st.lists(FILE, max_size=3)),
    "A letter with anything in it is ingested, or is a dead letter with a reason; what it carries is a document each.",
    moment=20,
)
def letters(given: tuple[str, list[tuple[str, str, bytes]]]) -> None:
    subject, files = given
    folder = room() / "post"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    (folder / "letter.eml").write_bytes(_letter(subject, files))
    with closing(_fresh(room() / "post.db")) as store:
        with closing(rag.Library(store, settings=rag.Settings(embedder="hash:8"))) as library:
            library.ingest(str(folder))
        here: list[Any] = store.standings("documents")
        assert {one.state for one in here} <= {"done", "dead"}
        assert len({one.key for one in here}) == len(here)
        assert all(one.reason for one in here if one.state == "dead")


def _letter(subject: str, files: list[tuple[str, str, bytes]]) -> bytes:
    parts = MAIL.partition(b"--b1\n")[0].replace(b"=?utf-8?b?VGlkZXM=?=", _line(subject)) + b"--b1\n\nbody\n"
    for name, suffix, content in files:
        head = b'Content-Type: application/octet-stream\nContent-Disposition: attachment; filename="'
        parts += b"--b1\n" + head + _line(name + suffix) + b'"\n\n' + content + b"\n"
    return parts + b"--b1--\n"


def _line(text: str) -> bytes:
    return text.encode(errors="replace").replace(b"\n", b" ").replace(b"\r", b" ")
