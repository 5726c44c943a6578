"""The dashboard asks for nothing that is not exported, shows all that is, and the page explains every name."""

from __future__ import annotations

import itertools
import json
import re
from typing import Any

import pytest

from holdfast.engine.measures import STORE_MEASURES, WORKER_MEASURES, Measure
from tests.docs.pages import ROOT

DASHBOARD: dict[str, Any] = json.loads((ROOT / "docs/grafana/holdfast.json").read_text(encoding="utf-8"))
PAGE = (ROOT / "docs/watching.md").read_text(encoding="utf-8")
PANELS = [panel for panel in DASHBOARD["panels"] if panel["type"] != "row"]
EXPRESSIONS = [target["expr"] for panel in PANELS for target in panel["targets"]]
EXPRESSIONS += [one["definition"] for one in DASHBOARD["templating"]["list"] if one["type"] == "query"]
MEASURES = (*WORKER_MEASURES, *STORE_MEASURES)
WORDS = {"sum", "by", "rate", "max", "min", "or", "vector", "histogram_quantile", "label_values", "le", "pipeline"}


def samples(measure: Measure) -> set[str]:
    """Names what Prometheus finds of a measure."""
    if measure.kind == "counter":
        return {f"{measure.name}_total"}
    if measure.kind == "histogram":
        return {f"{measure.name}{end}" for end in ("_bucket", "_sum", "_count")}
    return {measure.name}


def asked(expression: str) -> set[str]:
    return set(re.findall(r"holdfast_\w+", expression))


EXPORTED = set().union(*map(samples, MEASURES))


@pytest.mark.parametrize("expression", EXPRESSIONS)
def test_the_dashboard_asks_only_for_what_is_exported(expression: str) -> None:
    assert asked(expression)
    assert asked(expression) <= EXPORTED


@pytest.mark.parametrize("expression", EXPRESSIONS)
def test_the_dashboard_tells_apart_only_by_labels_that_are_there(expression: str) -> None:
    known = {label for one in MEASURES if samples(one) & asked(expression) for label in one.labels} | {"le"}
    by = {label for group in re.findall(r"by \(([^)]*)\)", expression) for label in group.split(", ")}
    matched = set(re.findall(r"[{,](\w+)=", expression))
    assert by | matched <= known


@pytest.mark.parametrize("measure", MEASURES, ids=lambda measure: measure.name)
def test_everything_that_is_exported_is_on_the_dashboard(measure: Measure) -> None:
    assert samples(measure) & set().union(*map(asked, EXPRESSIONS))


@pytest.mark.parametrize("measure", MEASURES, ids=lambda measure: measure.name)
def test_everything_that_is_exported_is_explained_with_its_labels(measure: Measure) -> None:
    name = f"{measure.name}_total" if measure.kind == "counter" else measure.name
    (row,) = [line for line in PAGE.splitlines() if line.startswith(f"| `{name}`")]
    assert [f"`{label}`" in row for label in measure.labels] == [True] * len(measure.labels)


def test_every_metric_that_the_page_names_is_exported() -> None:
    named = set(re.findall(r"^\| `(holdfast_\w+)`", PAGE, re.MULTILINE))
    assert named == {f"{one.name}_total" if one.kind == "counter" else one.name for one in MEASURES}


def test_names_of_measures_follow_the_rules_of_prometheus() -> None:
    assert all(re.fullmatch(r"holdfast_[a-z]+(_[a-z]+)*", one.name) for one in MEASURES)
    assert len({one.name for one in MEASURES}) == len({one.dotted for one in MEASURES}) == len(MEASURES)
    assert all(one.means.endswith(".") or one.means.endswith("0.") for one in MEASURES)


def test_the_data_source_is_chosen_by_whoever_imports_it() -> None:
    (given,) = DASHBOARD["__inputs"]
    assert (given["name"], given["type"], given["pluginId"]) == ("DS_PROMETHEUS", "datasource", "prometheus")
    chosen = {"type": "prometheus", "uid": "${DS_PROMETHEUS}"}
    assert all(panel["datasource"] == chosen for panel in PANELS)
    assert all(target["datasource"] == chosen for panel in PANELS for target in panel["targets"])
    assert "DS_PROMETHEUS" in [one["name"] for one in DASHBOARD["templating"]["list"]]


def test_the_dashboard_has_what_grafana_needs() -> None:
    assert {"title", "uid", "panels", "schemaVersion", "templating", "time", "version"} <= DASHBOARD.keys()
    assert DASHBOARD["id"] is None
    ids = [panel["id"] for panel in DASHBOARD["panels"]]
    assert len(ids) == len(set(ids))
    for panel in PANELS:
        assert {"type", "title", "description", "gridPos", "targets", "fieldConfig", "options"} <= panel.keys()
        assert panel["description"].endswith(".")
        references = [target["refId"] for target in panel["targets"]]
        assert len(references) == len(set(references))
    required = {one["id"] for one in DASHBOARD["__requires"] if one["type"] == "panel"}
    assert required == {panel["type"] for panel in PANELS}


def test_no_panel_lies_on_another() -> None:
    places = [(panel["title"], panel["gridPos"]) for panel in DASHBOARD["panels"]]
    assert all(place["x"] + place["w"] <= 24 for _, place in places)
    for (one, a), (other, b) in itertools.combinations(places, 2):
        beside = a["x"] + a["w"] <= b["x"] or b["x"] + b["w"] <= a["x"]
        below = a["y"] + a["h"] <= b["y"] or b["y"] + b["h"] <= a["y"]
        assert beside or below, f"{one} and {other} share a place"
