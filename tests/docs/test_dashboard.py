"""The dashboard uses only exported metrics and shows all of them, and the page explains every name."""

from __future__ import annotations

import itertools
import json
import re
from typing import Any

import pytest

from holdfast.observe.metrics import STORE_METRICS, WORKER_METRICS, MetricSpec
from tests.docs.pages import ROOT

DASHBOARD: dict[str, Any] = json.loads((ROOT / "docs/grafana/holdfast.json").read_text(encoding="utf-8"))
PAGE = (ROOT / "docs/monitoring.md").read_text(encoding="utf-8")
PANELS = [panel for panel in DASHBOARD["panels"] if panel["type"] != "row"]
EXPRESSIONS = [target["expr"] for panel in PANELS for target in panel["targets"]]
EXPRESSIONS += [variable["definition"] for variable in DASHBOARD["templating"]["list"] if variable["type"] == "query"]
METRICS = (*WORKER_METRICS, *STORE_METRICS)
WORDS = {"sum", "by", "rate", "max", "min", "or", "vector", "histogram_quantile", "label_values", "le", "pipeline"}


def samples(spec: MetricSpec) -> set[str]:
    """Return the names under which Prometheus finds a metric."""
    if spec.kind == "counter":
        return {f"{spec.name}_total"}
    if spec.kind == "histogram":
        return {f"{spec.name}{end}" for end in ("_bucket", "_sum", "_count")}
    return {spec.name}


def metrics_in(expression: str) -> set[str]:
    return set(re.findall(r"holdfast_\w+", expression))


EXPORTED = set().union(*map(samples, METRICS))


@pytest.mark.parametrize("expression", EXPRESSIONS)
def test_the_dashboard_uses_only_exported_metrics(expression: str) -> None:
    assert metrics_in(expression)
    assert metrics_in(expression) <= EXPORTED


@pytest.mark.parametrize("expression", EXPRESSIONS)
def test_the_dashboard_uses_only_labels_that_exist(expression: str) -> None:
    known = {label for spec in METRICS if samples(spec) & metrics_in(expression) for label in spec.labels} | {"le"}
    by = {label for group in re.findall(r"by \(([^)]*)\)", expression) for label in group.split(", ")}
    matched = set(re.findall(r"[{,](\w+)=", expression))
    assert by | matched <= known


@pytest.mark.parametrize("spec", METRICS, ids=lambda spec: spec.name)
def test_everything_that_is_exported_is_on_the_dashboard(spec: MetricSpec) -> None:
    assert samples(spec) & set().union(*map(metrics_in, EXPRESSIONS))


@pytest.mark.parametrize("spec", METRICS, ids=lambda spec: spec.name)
def test_everything_that_is_exported_is_explained_with_its_labels(spec: MetricSpec) -> None:
    name = f"{spec.name}_total" if spec.kind == "counter" else spec.name
    (row,) = [line for line in PAGE.splitlines() if line.startswith(f"| `{name}`")]
    assert [f"`{label}`" in row for label in spec.labels] == [True] * len(spec.labels)
    assert f"| {spec.description} |" in row, "the page has another description than the code"


def test_every_metric_that_the_page_names_is_exported() -> None:
    named = set(re.findall(r"^\| `(holdfast_\w+)`", PAGE, re.MULTILINE))
    assert named == {f"{it.name}_total" if it.kind == "counter" else it.name for it in METRICS}


def test_names_of_metrics_follow_the_rules_of_prometheus() -> None:
    assert all(re.fullmatch(r"holdfast_[a-z]+(_[a-z]+)*", it.name) for it in METRICS)
    assert len({it.name for it in METRICS}) == len({it.dotted for it in METRICS}) == len(METRICS)
    assert all(it.description.endswith(".") for it in METRICS)


def test_the_data_source_is_chosen_by_whoever_imports_it() -> None:
    (source,) = DASHBOARD["__inputs"]
    assert (source["name"], source["type"], source["pluginId"]) == ("DS_PROMETHEUS", "datasource", "prometheus")
    chosen = {"type": "prometheus", "uid": "${DS_PROMETHEUS}"}
    assert all(panel["datasource"] == chosen for panel in PANELS)
    assert all(target["datasource"] == chosen for panel in PANELS for target in panel["targets"])
    assert "DS_PROMETHEUS" in [variable["name"] for variable in DASHBOARD["templating"]["list"]]


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
    required = {entry["id"] for entry in DASHBOARD["__requires"] if entry["type"] == "panel"}
    assert required == {panel["type"] for panel in PANELS}


def test_no_panel_overlaps_another() -> None:
    places = [(panel["title"], panel["gridPos"]) for panel in DASHBOARD["panels"]]
    assert all(place["x"] + place["w"] <= 24 for _, place in places)
    for (first, a), (second, b) in itertools.combinations(places, 2):
        beside = a["x"] + a["w"] <= b["x"] or b["x"] + b["w"] <= a["x"]
        below = a["y"] + a["h"] <= b["y"] or b["y"] + b["h"] <= a["y"]
        assert beside or below, f"the panels {first} and {second} overlap"
