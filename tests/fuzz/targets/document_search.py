"""Document search from end to end: settings as people type them, and mails with any attachments."""

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
from holdfast.pipelines.rag.embed import create_embedder
from tests.fuzz.inputs import scratch_folder, texts
from tests.fuzz.target import takes
from tests.fuzz.targets.command_line import TYPED
from tests.fuzz.targets.parsers import MAIL
from tests.fuzz.targets.store_urls import check_exit
from tests.fuzz.targets.values import _fresh

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
        st.lists(st.tuples(st.sampled_from(OPTIONS), TYPED | SPEC), max_size=4),
    ),
    "A collection is created or changed, or a message says which values are allowed.",
)
def settings(given: tuple[str, str, list[tuple[str, str]]]) -> None:
    verb, name, options = given
    arguments = [argument for option in options for argument in option]
    _fresh(scratch_folder() / "settings.db").close()
    with chdir(scratch_folder()):
        runner = CliRunner()
        store = ["--store", "sqlite:///settings.db"]
        check_exit(runner.invoke(app, ["collection", "create", "documents", *store], prog_name="holdfast"))
        check_exit(runner.invoke(app, ["collection", verb, name, *arguments, *store], prog_name="holdfast"))
        check_exit(runner.invoke(app, ["collection", "list", *store], prog_name="holdfast"))


@takes(
    SPEC,
    "Any text names an embedder whose vectors fit into memory, or ValueError lists the known ones.",
    refusals=[ValueError],
)
def embedders(spec: str) -> None:
    if spec.startswith("hash"):
        assert create_embedder(spec).embed_query("tides and ebbs").nbytes < 1 << 20


FILE = st.tuples(texts, st.sampled_from(("", ".txt", ".eml", "#", "#0", "/", "\\", ".pdf")), st.binary(max_size=20))


@takes(
    st.tuples(texts, st.lists(FILE, max_size=3)),
    "A mail with any attachments is ingested or is a dead letter with a reason; each attachment is a document.",
    inputs_in_tests=20,
)
def letters(given: tuple[str, list[tuple[str, str, bytes]]]) -> None:
    subject, files = given
    folder = scratch_folder() / "post"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    (folder / "letter.eml").write_bytes(_letter(subject, files))
    with closing(_fresh(scratch_folder() / "post.db")) as store:
        with closing(rag.Library(store, settings=rag.CollectionSettings(embedder="hash:8"))) as library:
            library.ingest(str(folder))
        documents: list[Any] = store.documents("documents")
        assert {document.state for document in documents} <= {"done", "dead"}
        assert len({document.key for document in documents}) == len(documents)
        assert all(document.reason for document in documents if document.state == "dead")


def _letter(subject: str, files: list[tuple[str, str, bytes]]) -> bytes:
    parts = MAIL.partition(b"--b1\n")[0].replace(b"=?utf-8?b?VGlkZXM=?=", _line(subject)) + b"--b1\n\nbody\n"
    for name, suffix, content in files:
        head = b'Content-Type: application/octet-stream\nContent-Disposition: attachment; filename="'
        parts += b"--b1\n" + head + _line(name + suffix) + b'"\n\n' + content + b"\n"
    return parts + b"--b1--\n"


def _line(text: str) -> bytes:
    return text.encode(errors="replace").replace(b"\n", b" ").replace(b"\r", b" ")
