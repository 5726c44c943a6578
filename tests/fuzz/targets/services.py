"""Services that lie: how long to wait, what was read, vectors, sizes, dates; and model packs that are others."""

from __future__ import annotations

import hashlib
from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec
import pytest
from hypothesis import strategies as st

pytest.importorskip("httpx2", reason="services need the extra rag")

import httpx2

from holdfast.core.retry import LONGEST, retry_after
from holdfast.pipelines.rag.asking import asked_to_wait
from holdfast.pipelines.rag.azure import AzureReader, _Analysis, texts_of
from holdfast.pipelines.rag.embedders.batcher import BadInput, Fault
from holdfast.pipelines.rag.embedders.onnx_graph import encoder
from holdfast.pipelines.rag.embedders.pack import MAGIC, Pack
from holdfast.pipelines.rag.embedders.services import Ollama, OpenAI
from holdfast.pipelines.rag.sources.remote import _nanoseconds
from holdfast.pipelines.rag.sources.source import Unreachable
from holdfast.pipelines.rag.sources.web import _length, _seen, _sound
from tests.fuzz.inputs import json, numbers, texts, written
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


@takes(st.tuples(WAITS, WAITS), "Any Retry-After is a wait that a clock can count, or none.", sealed=True)
def waits(given: tuple[str, str]) -> None:
    seconds, milliseconds = given
    headers = {"retry-after": seconds, "retry-after-ms": milliseconds}
    asked = asked_to_wait(headers, now=NOW)
    assert asked is None or timedelta(0) <= timedelta(seconds=asked) <= LONGEST
    error = Exception()
    error.response = type("Response", (), {"headers": {"Retry-After": seconds}})()  # type: ignore[attr-defined]
    told = retry_after(error, now=NOW)
    assert told is None or timedelta(0) <= told <= LONGEST


LIE = st.one_of(json, st.just(None), st.just([]), st.just({}))
SPAN = st.fixed_dictionaries({}, optional={"offset": LIE | numbers, "length": LIE | numbers})
PAGE = st.fixed_dictionaries(
    {},
    optional={
        "pageNumber": st.integers(0, 2) | LIE,
        "spans": st.lists(SPAN | LIE, max_size=2) | LIE,
        "lines": st.lists(st.fixed_dictionaries({}, optional={"content": LIE}) | LIE, max_size=2) | LIE,
    },
)
RESULT = st.fixed_dictionaries({}, optional={"content": LIE, "pages": st.lists(PAGE | LIE, max_size=2) | LIE})
ANSWER = st.fixed_dictionaries(
    {},
    optional={
        "status": st.sampled_from(("succeeded", "failed", "running")) | LIE,
        "analyzeResult": RESULT | LIE,
        "error": LIE,
    },
)
READ = {
    "status": "succeeded",
    "analyzeResult": {"content": "ebb flow", "pages": [{"pageNumber": 1, "spans": [{"offset": 0, "length": 3}]}]},
}
STATUS = st.sampled_from((200, 200, 200, 202, 204, 301, 400, 401, 404, 413, 429, 500, 503))


@takes(
    st.lists(st.tuples(STATUS, st.just(READ) | ANSWER | LIE, st.just("0") | WAITS, texts), min_size=1, max_size=4),
    "Whatever Azure answers, there are texts of pages, a rejected file, a wait, or a ServiceError; the end comes soon.",
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
    | st.lists(st.floats() | LIE, max_size=3)
    | st.sampled_from(("AACAPwAAAAA=", "AAAA", "é", "A"))
    | LIE
)
ONE = st.fixed_dictionaries({}, optional={"embedding": VECTOR, "index": numbers | LIE})
EMBEDDED = st.fixed_dictionaries(
    {},
    optional={
        "data": st.just(GOOD) | st.lists(ONE | LIE, max_size=3) | LIE,
        "embeddings": st.lists(VECTOR, max_size=3) | LIE,
    },
)


@takes(
    st.tuples(STATUS, st.just(FINE) | EMBEDDED | LIE, st.sampled_from((2, 2, 1)), st.booleans()),
    "Whatever a service answers, there is a vector of length one for each text, or a ServiceError says what it did.",
    refusals=[BadInput, Fault],
)
def embeddings(given: tuple[int, Any, int, bool]) -> None:
    status, body, count, is_openai = given
    answer = httpx2.Response(status if is_openai is False else 200, content=_encoded(body))
    service = OpenAI("m", dimension=2) if is_openai else Ollama("m")
    for vector in service._read(answer, count):
        assert abs(float((vector**2).sum()) - 1) < 1e-3


@takes_bytes(
    [b'{"data":[{"embedding":[1,0],"index":0}],"embeddings":[[1,0]]}', b'{"embeddings":["AACAPwAAAAA="]}', b"[" * 2000],
    "The same for any bytes.",
    refusals=[BadInput, Fault],
)
def embedding_bytes(data: bytes) -> None:
    for service in (OpenAI("m", dimension=2), Ollama("m")):
        service._read(httpx2.Response(200, content=data), 1)


NAMES = ("Content-Length", "Content-Encoding", "Last-Modified", "ETag", "Retry-After", "Location")


@takes(
    st.tuples(STATUS, st.dictionaries(st.sampled_from(NAMES), WAITS)),
    "Whatever headers a server sends, a document was seen, or is rejected, put off or out of reach.",
    refusals=[Unreachable],
)
def headers(given: tuple[int, dict[str, str]]) -> None:
    status, named = given
    request = httpx2.Request("GET", "https://example.org/a.pdf")
    answer = httpx2.Response(
        status, headers=[(name.encode(), _plain(value)) for name, value in named.items()], request=request
    )
    seen = _seen("https://example.org/a.pdf", _sound(answer))
    int(_length(answer) or 0)
    assert -(2**63) <= seen.size < 2**63
    assert -(2**63) <= seen.mtime_ns < 2**63


@takes(
    WAITS | numbers | st.floats() | st.none(),
    "Whenever a bucket says that an object was changed, it is a time that can be kept, or none.",
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
    "A model pack that is another one is refused with PackError, or its tensors can be read.",
)
def packs(data: bytes) -> None:
    pack = Pack(written("a.pack", data), sha256=hashlib.sha256(data).hexdigest())
    for tensor in pack.header.tensors:
        pack.tensor(tensor.name)
    encoder(pack.header.arch, pack.tensor)


def _encoded(body: Any) -> bytes:
    try:
        return msgspec.json.encode(body)
    except (ValueError, OverflowError, UnicodeEncodeError, RecursionError):
        return repr(body).encode(errors="replace")


def _plain(value: str) -> bytes:
    """A header as it can be sent at all."""
    return value.encode("latin-1", errors="replace").translate(None, b"\r\n\0")
