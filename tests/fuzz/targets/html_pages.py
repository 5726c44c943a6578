"""HTML pages and metrics: names, reasons and payloads must be escaped in them."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import strategies as st

pytest.importorskip("selectolax", reason="pages are read back with the extra rag")
pytest.importorskip("prometheus_client", reason="metrics need the extra prometheus")

from prometheus_client.parser import text_string_to_metric_families
from selectolax.lexbor import LexborHTMLParser

from holdfast.cli.ui.batch_report_html import render_batch_report
from holdfast.core.batches import BatchReport, Counted, DeadLetter
from holdfast.core.plan import StepShape
from holdfast.observe.metrics import STORE_METRICS
from holdfast.observe.prometheus import StoreCollector, page
from holdfast.pipelines.rag.search.search import SearchResult
from holdfast.web.page import SearchForm, render_page
from tests.fuzz.inputs import texts
from tests.fuzz.target import takes

AT = datetime(2026, 11, 16, tzinfo=UTC)
PLAIN = texts.map(lambda text: text.encode(errors="replace").decode())  # as stores return it
ESCAPED = "A page shows any name or reason as text: it never becomes markup, and links lead to files and web pages."
LINKS = ("/files/", "http://", "https://")
"""What the address of a result begins with."""
OURS = {
    *("html", "head", "meta", "title", "style", "body", "main", "header", "footer", "section", "h1", "h2", "p", "div"),
    *(
        "a",
        "b",
        "i",
        "span",
        "small",
        "ul",
        "ol",
        "li",
        "table",
        "thead",
        "tbody",
        "tr",
        "th",
        "td",
        "dl",
        "dt",
        "dd",
        "code",
    ),
    *(
        "form",
        "input",
        "select",
        "option",
        "button",
        "mark",
        "bdi",
        "br",
        "wbr",
        "-text",
        "-doctype",
        "!doctype",
        "-document",
    ),
}


def _checked(html: str) -> None:
    tree = LexborHTMLParser(html)
    for node in tree.root.traverse(include_text=False) if tree.root else ():
        assert node.tag in OURS, node.tag
        for name, value in node.attributes.items():
            assert not name.startswith("on"), name
            assert name not in ("src", "srcdoc", "style"), name
            assert name != "href" or (node.tag == "a" and str(value).startswith(LINKS)), value
            assert name != "action" or value == "/"


@takes(st.tuples(PLAIN, PLAIN, PLAIN, PLAIN, PLAIN, PLAIN), ESCAPED, sealed=True)
def reports(given: tuple[str, ...]) -> None:
    pipeline, batch, key, error, reason, who = given
    dead = DeadLetter(key, pipeline, error, reason, 1, 0, key, who, AT)
    report = BatchReport(
        pipeline=pipeline,
        batch=batch,
        state="closed",
        expected=3,
        balances=True,
        in_all=Counted(dead=1, cancelled=1, done=1),
        at_step={pipeline: Counted(dead=1), key: Counted(waiting=2)},
        created_at=AT,
        sealed_at=AT,
        closed_at=AT,
        made_at=AT,
        closed_by=who,
        reason=reason,
        holdfast=key,
        plan=batch,
        steps=(StepShape(pipeline, "value"),),
        dead_letters=(dead,),
        cancelled=(key,),
        missing=(batch,),
        workers=(who, reason),
        documents_sha256=key,
        sha256=key,
    )
    _checked(render_batch_report(report))


@takes(st.tuples(PLAIN, PLAIN, PLAIN, PLAIN, st.integers(0, 20), st.integers(0, 20)), ESCAPED, sealed=True)
def searches(given: Any) -> None:
    question, key, title, snippet, start, length = given
    begin = min(start, len(snippet))
    found = SearchResult(
        score=1.0,
        collection=key,
        source=key,
        key=key,
        kind=title,
        title=title,
        page=2,
        start=0,
        end=1,
        position=0,
        chunk_index=0,
        text=snippet,
        snippet=snippet,
        metadata={},
        marks=((begin, min(begin + length, len(snippet))),),
    )
    _checked(render_page(SearchForm(question, key), [key, title], [found]))
    _checked(render_page(SearchForm(question, key), [key], error=title))


@takes(
    st.lists(PLAIN, min_size=3, max_size=3),
    "Prometheus reads back any name of a step or an error unchanged.",
)
def metrics(names: list[str]) -> None:
    collector = StoreCollector(_Nothing())  # type: ignore[arg-type]
    specs = [spec for spec in STORE_METRICS if spec.labels]
    collector._gauges = {one: [(tuple(names[: len(one.labels)]), 1.0)] for one in specs}
    collector._expires_at = float("inf")
    labels = {
        tuple(sample.labels[label] for label in spec.labels)
        for spec in specs
        for family in text_string_to_metric_families(page(collector))
        for sample in family.samples
        if sample.name == spec.name
    }
    assert labels <= {tuple(names[: len(spec.labels)]) for spec in specs}, labels


class _Nothing:
    """A store that is never called."""
