"""Pages and metrics: what names, reasons and payloads are put into, and must not get out of."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import strategies as st

pytest.importorskip("selectolax", reason="pages are read back with the extra rag")
pytest.importorskip("prometheus_client", reason="metrics need the extra prometheus")

from prometheus_client.parser import text_string_to_metric_families
from selectolax.lexbor import LexborHTMLParser

from holdfast.cli.page import page_of
from holdfast.core.batches import BatchReport, Counted, DeadLetter
from holdfast.core.plan import StepShape
from holdfast.engine.measures import STORE_MEASURES
from holdfast.engine.prometheus import StoreCollector, page
from holdfast.pipelines.rag.search import Found
from holdfast.web.page import Asked
from holdfast.web.page import page as search_page
from tests.fuzz.inputs import texts
from tests.fuzz.target import takes

AT = datetime(2026, 11, 16, tzinfo=UTC)
PLAIN = texts.map(lambda text: text.encode(errors="replace").decode())  # as stores keep it
ESCAPED = "Whatever is called or said, a page shows it as text: no element, attribute or address comes of it."
OURS = {
    *("html", "head", "meta", "title", "style", "body", "main", "header", "footer", "section", "h1", "h2", "p", "div"),
    *(
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
            assert name not in ("src", "href", "srcdoc", "style"), name
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
    _checked(page_of(report))


@takes(st.tuples(PLAIN, PLAIN, PLAIN, PLAIN, st.integers(0, 20), st.integers(0, 20)), ESCAPED, sealed=True)
def searches(given: Any) -> None:
    question, key, title, snippet, start, length = given
    begin = min(start, len(snippet))
    found = Found(
        score=1.0,
        collection=key,
        source=key,
        key=key,
        kind=title,
        title=title,
        page=2,
        start=0,
        end=1,
        text=snippet,
        snippet=snippet,
        metadata={},
        marks=((begin, min(begin + length, len(snippet))),),
    )
    _checked(search_page(Asked(question, key), [key, title], [found]))
    _checked(search_page(Asked(question, key), [key], sentence=title))


@takes(
    st.lists(PLAIN, min_size=3, max_size=3),
    "Whatever steps and errors are called, Prometheus reads the same names back.",
)
def metrics(names: list[str]) -> None:
    collector = StoreCollector(_Nothing())  # type: ignore[arg-type]
    measures = [measure for measure in STORE_MEASURES if measure.labels]
    collector._gauges = {one: [(tuple(names[: len(one.labels)]), 1.0)] for one in measures}
    collector._good_until = float("inf")
    told = {
        tuple(sample.labels[label] for label in measure.labels)
        for measure in measures
        for family in text_string_to_metric_families(page(collector))
        for sample in family.samples
        if sample.name == measure.name
    }
    assert told <= {tuple(names[: len(one.labels)]) for one in measures}, told


class _Nothing:
    """A store that is not asked."""
