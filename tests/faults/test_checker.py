"""The checker finds each violation that is put into the store or the histories of a real run."""

from __future__ import annotations

import ast
import json
import shutil
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from tests.faults import checker
from tests.faults.environment import CaseRun

Line = dict[str, Any]


@pytest.fixture(scope="module")
def real_run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the store and the histories of a run: four documents are done, one twice; one is cancelled."""
    case_run = CaseRun("sqlite", tmp_path_factory.mktemp("run"), effort=1.0, seed=1)
    with case_run.environment() as env:
        env.submit(4)
        (last,) = env.submit(1, until=str(case_run.folder / "cancelled"))
        with env.workers(1):
            env.wait_until(lambda: env.done_documents() == 4, "not all documents are done")
            env.decide_about("rewind", "00000")
            env.decide_about("cancel", last)
            (case_run.folder / "cancelled").touch()
            env.wait_until_finished()
    assert case_run.violations == []
    return case_run.folder


@pytest.fixture
def run(real_run: Path, tmp_path: Path) -> Path:
    """A copy of the real run, for a test to change."""
    return Path(shutil.copytree(real_run, tmp_path / "run"))


def found_violations(run: Path) -> str:
    return "\n".join(checker.violations(f"sqlite:///{run}/faults.db", run / "histories"))


def change_store(run: Path, *statements: str) -> None:
    """Change rows of the store. Each statement has to change at least one."""
    with closing(sqlite3.connect(run / "faults.db")) as db:
        for statement in statements:
            assert db.execute(statement).rowcount, statement
        db.commit()


def change_histories(run: Path, change: Callable[[Line], Line | None]) -> None:
    """Change lines of the histories, or leave them out."""
    changed = 0
    for file in (run / "histories").glob("*.jsonl"):
        before = [json.loads(line) for line in file.read_text().splitlines()]
        after = [change(json.loads(json.dumps(line))) for line in before]
        changed += before != after
        file.write_text("".join(json.dumps(line) + "\n" for line in after if line))
    assert changed


def test_a_real_run_has_no_violations(run: Path) -> None:
    assert found_violations(run) == ""


ONE = "(select id from hf_document where key = '00001')"
STEP = "(select id from hf_step where name = '{}')"
ITEMS = f"document_id = {ONE} and step_id = {STEP}"
ROW = "batch, key, generation, step, item, value"


@pytest.mark.parametrize(
    ("statement", "violation"),
    {
        "a duplicated effect": (
            f"insert into fault_effect ({ROW}) select {ROW} from fault_effect where key = '00001' and step = 'add'",
            "00001: the effect (0, 'add', 0) was committed 2 times",
        ),
        "a missing effect": (
            "delete from fault_effect where key = '00001' and step = 'weigh' and item = 1",
            "at 1; its effect is None",
        ),
        "an effect without a document": (
            "update fault_effect set key = 'x' where key = '00001'",
            "x has effects and is not in the store",
        ),
        "effects that went back": ("update fault_effect set id = -id where key = '00001'", "00001 went back"),
        "an effect of a generation that never was": (
            "update fault_effect set generation = 9 where key = '00001'",
            "is of a generation that the document never had",
        ),
        "a value that no body computed": (
            """update fault_effect set value = '{"made": "1-2-3", "item": 0, "of": null}' where key = '00001'""",
            "has a value that no body computed",
        ),
        "a value of another document": (
            "update fault_effect set value = (select value from fault_effect where key = '00002') where key = '00001'",
            "has a value that was computed for",
        ),
        "an item that was changed": (
            f"update hf_item set value = replace(value, 'made', 'mode') where {ITEMS.format('risk')}",
            "00001: risk keeps",
        ),
        "a lost document": ("delete from hf_document where key = '00001'", "1 of its documents are lost"),
        "a document that nobody counts": ("update hf_batch set expected = expected - 1", "expects 4 and has"),
        "a key that the manifest lacks": (
            "update hf_manifest set keys = replace(keys, '00001', 'x')",
            "does not have the keys of its documents",
        ),
        "another payload": ("""update hf_document set payload = '{"pages": 3, "x": 1}'""", "was submitted with"),
        "a checkpoint ahead of its items": (
            f"delete from hf_item where {ITEMS.format('weigh')}",
            "00001 is at None None, and weigh lacks [0, 1, 2]",
        ),
        "a checkpoint behind its items": (
            f"update hf_document set state = 'dead', step_id = {STEP.format('weigh')}, cursor = 1 where id = {ONE}",
            "00001 is at weigh 1, and weigh has [1, 2] already",
        ),
        "a dead letter without a cause": (
            f"update hf_document set state = 'dead', step_id = {STEP.format('add')} where key = '00001'",
            "is dead without a cause",
        ),
        "a cancel that nobody called": (
            f"update hf_document set state = 'cancelled', step_id = {STEP.format('add')} where key = '00001'",
            "00001 is cancelled, and no cancel was called",
        ),
        "a cancelled document that went on": (
            f"update hf_document set state = 'dead', step_id = {STEP.format('read')} where state = 'cancelled'",
            "00004 was cancelled, and is dead",
        ),
        "a document that is not finished": (
            f"update hf_document set state = 'waiting', step_id = {STEP.format('add')}, due_at = 0 where key = '00001'",
            "00001 is not finished: it is waiting at add",
        ),
        "a rewind that is not in the journal": (
            "update hf_document set generation = 1 where key = '00001'",
            "is at generation 1, and its journal has 0 rewinds",
        ),
        "an answered rewind that is not in the journal": (
            "delete from hf_journal where verb = 'rewind'",
            "00000 was rewound 1 to 1 times; its journal has 0",
        ),
        "a journal that goes back": (
            f"insert into hf_journal (document_id, at, verb, who) values ({ONE.replace('1', '0')}, 0, 'note', 'x')",
            "its journal goes [",
        ),
        "a writer that claimed nothing": (
            "update hf_document set fence = 0 where key = '00001'",
            "was written by 1 processes and was claimed 0 times",
        ),
    }.values(),
)
def test_a_changed_store_is_detected(run: Path, statement: str, violation: str) -> None:
    change_store(run, statement)
    assert violation in found_violations(run)


def without_a_body(line: Line) -> Line | None:
    return None if line.get("kind") == "body" and line["what"]["step"] == "add" else line


def without_calls_of_effects(line: Line) -> Line | None:
    return None if line.get("kind") == "effect" else line


def without_submits(line: Line) -> Line | None:
    return None if line.get("kind") == "submit" else line


def with_a_submit_in_part(line: Line) -> Line:
    if line.get("kind") == "submit" and "00001" in line["what"]["documents"]:
        line["id"] += "-unanswered"
        line["what"]["documents"] |= {"99999": {"pages": 3}}
    return line


def with_an_answered_submit_more(line: Line) -> Line:
    if line.get("kind") == "submit":
        line["what"]["documents"] |= {"99999": {"pages": 3}}
    return line


def with_effects_before_their_bodies(line: Line) -> Line:
    return line | {"at": 0} if line.get("kind") == "effect" else line


def with_another_source(line: Line) -> Line:
    value = line.get("result", {}).get("value")
    if value and isinstance(value["of"], list):
        value["of"] = value["of"][:-1]
    return line


@pytest.mark.parametrize(
    ("change", "violation"),
    [
        (without_a_body, "has a value that no body computed"),
        (without_calls_of_effects, "no effect was called after its body"),
        (with_effects_before_their_bodies, "no effect was called after its body"),
        (with_another_source, "has a value that no body computed"),
        (without_submits, "is in the store, and was not submitted"),
        (with_a_submit_in_part, "was not answered, and only a part is stored: without [('tolerant-batch', '99999')]"),
        (with_an_answered_submit_more, "was answered, and 1 of its documents are lost"),
    ],
)
def test_changed_histories_are_detected(run: Path, change: Any, violation: str) -> None:
    change_histories(run, change)
    assert violation in found_violations(run)


def test_a_step_that_was_given_only_a_part_of_its_input_is_detected(run: Path) -> None:
    change_histories(run, with_another_source)
    shorter = "json_remove(value, '$.of[2]')"
    change_store(
        run,
        f"update fault_effect set value = {shorter} where step = 'add'",
        f"update hf_item set value = {shorter} where step_id = {STEP.format('add')}",
    )
    assert "add at 0 was made of" in found_violations(run)


def test_a_write_to_a_cancelled_document_is_detected(run: Path) -> None:
    with closing(sqlite3.connect(run / "faults.db")) as db:
        document, made = db.execute("select key, value ->> 'made' from fault_effect where step = 'read'").fetchone()
    change_store(
        run, f"update hf_document set state = 'cancelled', step_id = {STEP.format('add')} where key = '{document}'"
    )
    decision = {"verb": "cancel", "batch": "tolerant-batch", "keys": [document]}
    with (run / "histories" / "one-more.jsonl").open("w") as file:
        invoked = {"id": "x", "kind": "decision", "process": "x", "at": 1, "what": decision}
        completed = {"id": "x", "at": 2, "result": {"decided": [document]}}
        file.write(f"{json.dumps(invoked)}\n{json.dumps(completed)}\n")
    assert made
    assert "was cancelled, and the effect (0, 'read', 0) was written after that" in found_violations(run)


def test_a_line_that_was_cut_by_a_kill_is_ignored(run: Path) -> None:
    (run / "histories" / "cut.jsonl").write_text('{"id": "x", "ki')
    assert found_violations(run) == ""


def imported_modules() -> Iterator[tuple[str, str]]:
    folder = Path(checker.__file__).parent
    for name in ("checker", "final_state", "histories"):
        for node in ast.walk(ast.parse((folder / f"{name}.py").read_text())):
            if isinstance(node, ast.Import):
                yield from ((name, alias.name) for alias in node.names)
            elif isinstance(node, ast.ImportFrom):
                yield name, node.module or ""


def test_the_checker_imports_nothing_of_holdfast() -> None:
    assert [pair for pair in imported_modules() if pair[1].partition(".")[0] == "holdfast"] == []
