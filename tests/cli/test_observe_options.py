"""The options that make a worker observable: logs, metrics and traces."""

from __future__ import annotations

import json
import logging
import re
import signal
import subprocess
import sys
import time
import urllib.request
from importlib.util import find_spec
from pathlib import Path
from typing import IO

import pytest

from holdfast.cli.observe_options import args_for_process
from holdfast.cli.param_types import AddressType
from tests.cli.conftest import Run, Start

needs_prometheus = pytest.mark.skipif(not find_spec("prometheus_client"), reason="needs the extra prometheus")

SERVED = re.compile(r"Metrics are served at (http://\S+/metrics)")


def fetched(errors: IO[str] | None, *, until: str = "") -> str:
    """Fetch the address that a process prints, until the page contains these words."""
    assert errors is not None
    told = next(filter(None, map(SERVED.search, errors)))
    deadline, text = time.monotonic() + 30, ""
    while (not text or until not in text) and time.monotonic() < deadline:
        with urllib.request.urlopen(told[1]) as answer:
            text = answer.read().decode()
    return text


def test_the_log_is_json_lines_on_stderr(holdfast: Run, folder: Path) -> None:
    (folder / "docs" / "bad.txt").write_text("x")
    result = holdfast("run", "papers.py", "docs", "--log", "json")
    lines = [json.loads(line) for line in result.stderr.splitlines()]
    assert [line["event"] for line in lines] == ["submitted", "started", "fail", "stopped"]
    (fail,) = [line for line in lines if line["event"] == "fail"]
    assert (fail["pipeline"], fail["batch"], fail["key"], fail["step"]) == (
        "papers",
        "default",
        f"{Path.cwd()}/docs/bad.txt",
        "judge",
    )
    assert (fail["error"], fail["state"], fail["level"]) == ("ValueError", "dead", "error")
    assert "2 documents done" in result.stdout


def test_the_log_can_be_text_and_tell_every_commit(holdfast: Run) -> None:
    result = holdfast("run", "papers.py", "docs", "--log", "text", "--log-level", "debug")
    assert re.search(r"DEBUG committed \d+ moves in [\d.]+ ms", result.stderr)
    assert f"DEBUG {Path.cwd()}/docs/a.txt of default: done" in result.stderr


def test_what_bodies_log_is_in_the_log_too(holdfast: Run, folder: Path) -> None:
    (folder / "chatty.py").write_text(
        'import logging\nimport holdfast\nchatty = holdfast.Pipeline("chatty")\n\n'
        '@chatty.step\ndef say(doc):\n    logging.getLogger("mine").warning("hello %s", doc.key)\n'
    )
    result = holdfast("run", "chatty.py", "docs/a.txt", "--log", "json")
    (line,) = [one for one in map(json.loads, result.stderr.splitlines()) if one["event"] == "log"]
    assert (line["logger"], line["level"], line["message"]) == ("mine", "warning", f"hello {Path.cwd()}/docs/a.txt")


def test_the_log_is_as_silent_afterwards_as_before(holdfast: Run) -> None:
    before = (logging.getLogger().level, list(logging.getLogger().handlers))
    holdfast("run", "papers.py", "docs", "--log", "json")
    assert (logging.getLogger().level, logging.getLogger().handlers) == before


def test_without_the_option_nothing_is_logged(holdfast: Run) -> None:
    assert holdfast("run", "papers.py", "docs").stderr == ""


def test_every_worker_process_logs(holdfast: Run, start: Start) -> None:
    holdfast("submit", "papers.py", "docs")
    process = start("work", "papers.py", "--drain", "--processes", "2", "--log", "json")
    _, errors = process.communicate(timeout=60)
    lines = [json.loads(line) for line in errors.splitlines()]
    assert len({line["worker"] for line in lines if line["event"] == "started"}) == 2


@pytest.mark.parametrize(
    ("text", "address"),
    [(":9464", ("127.0.0.1", 9464)), ("0.0.0.0:80", ("0.0.0.0", 80)), ("[::1]:9464", ("::1", 9464))],
)
def test_an_address_is_on_loopback_unless_told(text: str, address: tuple[str, int]) -> None:
    assert AddressType().convert(text, None, None) == address


@needs_prometheus
@pytest.mark.parametrize("text", ["9464", ":http", ":99999"])
def test_what_is_no_address_is_refused(holdfast: Run, text: str) -> None:
    result = holdfast("work", "papers.py", "--metrics", text)
    assert result.exit_code == 2
    assert "is not an address; write :9464" in result.stderr


def test_worker_processes_serve_metrics_on_consecutive_ports() -> None:
    watched = {"log": None, "log_level": "info", "otel": True, "metrics": ("127.0.0.1", 9464)}
    watched |= {"labels": {}, "notify": (), "notify_on": ()}
    assert args_for_process(watched, 1) == ["--otel", "--metrics", "[127.0.0.1]:9464"]
    assert args_for_process(watched, 3)[-1] == "[127.0.0.1]:9466"
    address = AddressType().convert(args_for_process(watched, 3)[-1], None, None)
    assert address == ("127.0.0.1", 9466)


def test_worker_processes_have_the_labels_and_targets_of_their_parent() -> None:
    watched = {"log": None, "log_level": "info", "otel": False, "metrics": None}
    watched |= {"labels": {"run_id": 7}, "notify": ("command:cat",), "notify_on": ("dead_letter",)}
    assert args_for_process(watched, 1) == [
        *("--label", "run_id=7"),
        *("--notify", "command:cat"),
        *("--notify-on", "dead_letter"),
    ]


def test_labels_of_a_run_are_in_its_log(holdfast: Run) -> None:
    result = holdfast("submit", "papers.py", "docs", "--log", "json", "--label", "review=R1", "--label", "n8n=12")
    (line,) = [json.loads(line) for line in result.stderr.splitlines()]
    assert (line["event"], line["labels"]) == ("submitted", {"review": "R1", "n8n": 12})


def test_a_dead_letter_is_notified_by_a_command(holdfast: Run, folder: Path) -> None:
    (folder / "docs" / "bad.txt").write_text("x")
    holdfast("run", "papers.py", "docs", "--notify", "command:tee notified.json", "--label", "run_id=7")
    notified = json.loads((folder / "notified.json").read_text())
    assert (notified["event"], notified["count"], notified["labels"]) == ("dead_letter", 1, {"run_id": 7})
    assert notified["documents"][0]["key"] == f"{Path.cwd()}/docs/bad.txt"


@pytest.mark.parametrize(
    ("target", "why"),
    [
        ("htp://hooks.example", "cannot be sent to 'htp'"),
        ("https:///path", "a webhook is a URL such as"),
        ("command:no-such-program", "there is no program 'no-such-program'"),
        ("command:'", "cannot be read"),
    ],
)
def test_a_wrong_target_is_refused_before_any_work(holdfast: Run, folder: Path, target: str, why: str) -> None:
    result = holdfast("run", "papers.py", "docs", "--notify", target)
    assert (result.exit_code, why in result.stderr) == (2, True)
    assert not (folder / "holdfast.db").exists()


@needs_prometheus
def test_a_worker_serves_its_own_counters(holdfast: Run, start: Start) -> None:
    holdfast("submit", "papers.py", "docs")
    process = start("work", "papers.py", "--metrics", ":0")
    text = fetched(process.stderr, until='holdfast_done_total{pipeline="papers"} 2.0')
    process.send_signal(signal.SIGTERM)
    process.communicate(timeout=20)
    assert process.returncode == 143
    assert "# TYPE holdfast_commit_seconds histogram" in text
    assert 'holdfast_done_total{pipeline="papers"} 2.0' in text


@needs_prometheus
def test_a_port_that_is_taken_is_reported_in_a_sentence(holdfast: Run, start: Start) -> None:
    holdfast("run", "papers.py", "docs")
    process = start("store", "metrics", "--port", "0")
    assert process.stderr is not None
    told = SERVED.search(process.stderr.readline())
    assert told is not None
    port = told[1].rpartition(":")[2].partition("/")[0]
    result = holdfast("work", "papers.py", "--metrics", f":{port}")
    process.terminate()
    process.communicate(timeout=20)
    assert result.exit_code == 2
    assert f"metrics cannot be served at 127.0.0.1:{port}" in result.stderr


@needs_prometheus
def test_metrics_print_the_store_once(holdfast: Run, folder: Path) -> None:
    (folder / "docs" / "bad.txt").write_text("x")
    holdfast("run", "papers.py", "docs")
    result = holdfast("store", "metrics", "--once")
    assert result.exit_code == 0
    lines = result.stdout.splitlines()
    assert 'holdfast_documents{pipeline="papers",state="done",step=""} 2.0' in lines
    assert 'holdfast_dead_letters{error="ValueError",pipeline="papers",step="judge"} 1.0' in lines
    assert "holdfast_store_up 1.0" in lines


@needs_prometheus
@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_metrics_are_served_until_it_is_stopped(holdfast: Run, start: Start, number: signal.Signals, code: int) -> None:
    holdfast("run", "papers.py", "docs")
    process = start("store", "metrics", "--port", "0")
    text = fetched(process.stderr)
    process.send_signal(number)
    _, errors = process.communicate(timeout=20)
    assert process.returncode == code
    assert 'holdfast_documents{pipeline="papers",state="done",step=""} 2.0' in text
    assert "Traceback" not in errors


def test_metrics_for_programs_need_no_extra(holdfast: Run) -> None:
    holdfast("run", "papers.py", "docs")
    (said,) = json.loads(holdfast("store", "metrics", "--json").stdout)
    assert said["documents"] == [{"state": "done", "step": None, "documents": 2}]
    assert (said["dead_letters"], said["orphans"], said["oldest_waiting_seconds"]) == ([], 0, 0.0)


def test_metrics_of_a_store_that_is_not_there_are_refused(holdfast: Run) -> None:
    assert holdfast("store", "metrics", "--once").exit_code == 3


@pytest.mark.parametrize(
    ("words", "missing", "remedy"),
    [
        (("store", "metrics", "--once"), "prometheus_client", "pip install 'holdfast-pipelines[prometheus]'"),
        (("work", "papers.py", "--metrics", ":0"), "prometheus_client", "pip install 'holdfast-pipelines[prometheus]'"),
        (("work", "papers.py", "--otel"), "opentelemetry", "pip install 'holdfast-pipelines[otel]'"),
        (("run", "papers.py", "docs", "--otel"), "opentelemetry.sdk.trace", "pip install 'holdfast-pipelines[otel]'"),
    ],
)
def test_an_extra_that_is_missing_is_reported_in_a_sentence(
    holdfast: Run, words: tuple[str, ...], missing: str, remedy: str
) -> None:
    if missing == "opentelemetry.sdk.trace":
        pytest.importorskip("opentelemetry.sdk", reason="needs the extra otel")
    holdfast("submit", "papers.py", "docs/a.txt")
    code = (
        f"import sys; sys.modules[{missing!r}] = None; sys.argv = ['holdfast', *{list(words)!r}]\n"
        "from holdfast.cli import main; main()"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert (done.returncode, len(done.stderr.splitlines())) == (2, 1), done.stderr
    assert remedy in done.stderr


def test_no_extra_is_imported_without_an_observe_option(holdfast: Run) -> None:
    code = (
        "import sys; sys.argv = ['holdfast', 'run', 'papers.py', 'docs']\n"
        "from holdfast.cli import main\n"
        "try: main()\n"
        "except SystemExit: print([name for name in ('opentelemetry', 'prometheus_client') if name in sys.modules])"
    )
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert out.splitlines()[-1] == "[]"
