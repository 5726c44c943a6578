"""Answers of services that may be wrong: waits, texts, vectors, sizes and dates; and model packs."""

from __future__ import annotations

import hashlib
from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec
import pytest
from hypothesis import strategies as st

pytest.importorskip("httpx2", reason="services need the extra rag")

import httpx2

from holdfast.core.retry import LONGEST, retry_after, retry_after_header
from holdfast.pipelines.rag.embed.batcher import FailedRequest, RejectedText
from holdfast.pipelines.rag.embed.granite import _graph_weights
from holdfast.pipelines.rag.embed.granite_weights import MAGIC, ModelPack
from holdfast.pipelines.rag.embed.remote import Ollama, OpenAI
from holdfast.pipelines.rag.extract.azure_reader import AzureReader, _Analysis, texts_of
from holdfast.sources.fsspec_source import _nanoseconds
from holdfast.sources.http_source import _checked, _length, _source_file
from holdfast.sources.source import Unreachable
from tests.fuzz.inputs import json, numbers, texts, write_scratch_file
from tests.fuzz.target import takes, takes_bytes

NOW = datetime(2026, 11, 16, tzinfo=UTC)
WAITS = st.one_of(
    texts,
    numbers.map(str),
    st.floats().map(str),
    st.sampled_from(
        (
            *("Mon, 16 Nov 2026 12:00:00 GMT", "Fri, 31 Dec 9999 23:59:59 -2359", "Mon, 01 Jan 0001 00:00:00 +2359"),
            *("Mon, 16 Nov 99999999999999999999 12:00:00 GMT", "1 Jan 2026 00:00:00 +99999999999999", "1e309", "1e30"),
            *("Mon, 16 Nov 2026 12:00:00 -0000", "٣", "1_000", " 7 ", "-5", "Infinity", "0x10", "9" * 5000),
        )
    ),
)


@takes(st.tuples(WAITS, WAITS), "Any Retry-After is a wait up to the maximum, or none.", sealed=True)
def waits(given: tuple[str, str]) -> None:
    seconds, milliseconds = given
    headers = {"retry-after": seconds, "retry-after-ms": milliseconds}
    wait = retry_after_header(headers, now=NOW)
    assert wait is None or timedelta(0) <= wait <= LONGEST
    error = Exception()
    error.response = type("Response", (), {"headers": {"Retry-After": seconds}})()  # type: ignore[attr-defined]
    wait = retry_after(error, now=NOW)
    assert wait is None or timedelta(0) <= wait <= LONGEST


ANY_JSON = st.one_of(json, st.just(None), st.just([]), st.just({}))
SPAN = st.fixed_dictionaries({}, optional={"offset": ANY_JSON | numbers, "length": ANY_JSON | numbers})
PAGE = st.fixed_dictionaries(
    {},
    optional={
        "pageNumber": st.integers(0, 2) | ANY_JSON,
        "spans": st.lists(SPAN | ANY_JSON, max_size=2) | ANY_JSON,
        "lines": st.lists(st.fixed_dictionaries({}, optional={"content": ANY_JSON}) | ANY_JSON, max_size=2) | ANY_JSON,
    },
)
RESULT = st.fixed_dictionaries(
    {}, optional={"content": ANY_JSON, "pages": st.lists(PAGE | ANY_JSON, max_size=2) | ANY_JSON}
)
ANSWER = st.fixed_dictionaries(
    {},
    optional={
        "status": st.sampled_from(("succeeded", "failed", "running")) | ANY_JSON,
        "analyzeResult": RESULT | ANY_JSON,
        "error": ANY_JSON,
    },
)
READ = {
    "status": "succeeded",
    "analyzeResult": {"content": "ebb flow", "pages": [{"pageNumber": 1, "spans": [{"offset": 0, "length": 3}]}]},
}
STATUS = st.sampled_from((200, 200, 200, 202, 204, 301, 400, 401, 404, 413, 429, 500, 503))


@takes(
    st.lists(st.tuples(STATUS, st.just(READ) | ANSWER | ANY_JSON, st.just("0") | WAITS, texts), min_size=1, max_size=4),
    "Any answer of Azure gives texts of pages, a rejected file, a wait, or a ServiceError, within a few requests.",
)
def azure(answers: list[tuple[int, Any, str, str]]) -> None:
    left = iter(answers * 50)

    def answer(request: httpx2.Request) -> httpx2.Response:
        status, body, wait, place = next(left, (500, None, "", ""))
        if request.method == "POST" and answers[0][0] < 400:
            status, wait = 202, "0"
        home = "https://example.org/x" if status == 202 else place
        headers = [(b"operation-location", _plain(home)), (b"retry-after", _plain(wait))]
        return httpx2.Response(status, headers=headers, content=_encoded(body))

    reader = AzureReader("https://example.org", "key", sleep=lambda _: None)
    with httpx2.Client(transport=httpx2.MockTransport(answer)) as client:
        pages = texts_of(_Analysis(reader, client).result(b"%PDF", 2), 2)
    assert all(isinstance(text, str) for text in pages)
    assert len(pages) == 2


GOOD = [{"embedding": [1.0, 2.0], "index": 0}, {"embedding": "AACAPwAAAAA=", "index": 1}]
FINE = {"data": GOOD, "embeddings": [[3.0, 4.0], [0.5, 1.0]]}
VECTOR = (
    st.just([3.0, 4.0])
    | st.lists(st.floats() | ANY_JSON, max_size=3)
    | st.sampled_from(("AACAPwAAAAA=", "AAAA", "é", "A"))
    | ANY_JSON
)
ONE = st.fixed_dictionaries({}, optional={"embedding": VECTOR, "index": numbers | ANY_JSON})
EMBEDDED = st.fixed_dictionaries(
    {},
    optional={
        "data": st.just(GOOD) | st.lists(ONE | ANY_JSON, max_size=3) | ANY_JSON,
        "embeddings": st.lists(VECTOR, max_size=3) | ANY_JSON,
    },
)


@takes(
    st.tuples(STATUS, st.just(FINE) | EMBEDDED | ANY_JSON, st.sampled_from((2, 2, 1)), st.booleans()),
    "Any answer of a service gives a vector of length one for each text, or a ServiceError with what it returned.",
    refusals=[RejectedText, FailedRequest],
)
def embeddings(given: tuple[int, Any, int, bool]) -> None:
    status, body, count, is_openai = given
    answer = httpx2.Response(status if is_openai is False else 200, content=_encoded(body))
    service = OpenAI("m", dimension=2) if is_openai else Ollama("m")
    for vector in service._read(answer, count):
        assert abs(float((vector**2).sum()) - 1) < 1e-3


@takes_bytes(
    [b'{"data":[{"embedding":[1,0],"index":0}],"embeddings":[[1,0]]}', b'{"embeddings":["AACAPwAAAAA="]}', b"[" * 2000],
    "Any bytes of a service give a vector for each text, or a ServiceError.",
    refusals=[RejectedText, FailedRequest],
)
def embedding_bytes(data: bytes) -> None:
    for service in (OpenAI("m", dimension=2), Ollama("m")):
        service._read(httpx2.Response(200, content=data), 1)


NAMES = ("Content-Length", "Content-Encoding", "Last-Modified", "ETag", "Retry-After", "Location")


@takes(
    st.tuples(STATUS, st.dictionaries(st.sampled_from(NAMES), WAITS)),
    "With any headers of a server, a document is seen, rejected, delayed or unreachable.",
    refusals=[Unreachable],
)
def headers(given: tuple[int, dict[str, str]]) -> None:
    status, named = given
    request = httpx2.Request("GET", "https://example.org/a.pdf")
    answer = httpx2.Response(
        status, headers=[(name.encode(), _plain(value)) for name, value in named.items()], request=request
    )
    seen = _source_file("https://example.org/a.pdf", _checked(answer))
    int(_length(answer) or 0)
    assert -(2**63) <= seen.size < 2**63
    assert -(2**63) <= seen.mtime_ns < 2**63


@takes(
    WAITS | numbers | st.floats() | st.none(),
    "Any modification time of a bucket is a time that can be stored, or none.",
    sealed=True,
)
def times(moment: Any) -> None:
    assert abs(_nanoseconds(moment)) < 2**63


def _pack(**changed: Any) -> bytes:
    arch = {"hidden": 4, "layers": 1, "heads": 1, "intermediate": 4, "vocab": 2, "max_positions": 2}
    meta = {
        "model": "m",
        "revision": "r",
        "pooling": "cls",
        "normalize": True,
        "query_prefix": "",
        "passage_prefix": "",
    }
    tensors = [
        {"name": name, "dtype": "f32", "shape": shape, "len": 4 * shape[0] * (shape[1:] or [1])[0], "group": 0}
        for name, shape in (
            *(("emb_ln.w", [4]), ("emb_ln.b", [4]), ("l0.qkv.w", [12, 4]), ("l0.qkv.b", [12]), ("l0.ao.w", [4, 4])),
            *(("l0.ao.b", [4]), ("l0.aln.w", [4]), ("l0.aln.b", [4]), ("l0.f1.w", [4, 4]), ("l0.f1.b", [4])),
            *(("l0.f2.w", [4, 4]), ("l0.f2.b", [4]), ("l0.fln.w", [4]), ("l0.fln.b", [4])),
        )
    ]
    tensors.append({"name": "word_emb", "dtype": "i8", "shape": [2, 4], "len": 8 + 4 * 4, "group": 2})
    header = {
        "format": 1,
        "meta": meta | {"max_length": 8},
        "arch": arch | {"layer_norm_eps": 1e-5, "position_offset": 0},
        "tokenizer_len": 2,
        "tensors": tensors,
    } | changed
    written_ = msgspec.json.encode(header)
    return MAGIC + len(written_).to_bytes(8, "little") + written_ + b"{}" + bytes(sum(one["len"] for one in tensors))


@takes_bytes(
    [_pack(), _pack(format=2), _pack(tokenizer_len=-1), MAGIC + b"\xff" * 8],
    "A changed model pack is refused with ModelPackError, or its tensors can be read.",
)
def packs(data: bytes) -> None:
    pack = ModelPack(write_scratch_file("a.pack", data), sha256=hashlib.sha256(data).hexdigest())
    for tensor in pack.header.tensors:
        pack.tensor(tensor.name)
    _graph_weights(pack)


def _encoded(body: Any) -> bytes:
    try:
        return msgspec.json.encode(body)
    except (ValueError, OverflowError, UnicodeEncodeError, RecursionError):
        return repr(body).encode(errors="replace")


def _plain(value: str) -> bytes:
    """Return a header value that can be sent."""
    return value.encode("latin-1", errors="replace").translate(None, b"\r\n\0")
