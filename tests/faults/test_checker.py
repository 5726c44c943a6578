"""The checker finds what is wrong: books and histories of a real run that were doctored are each found out."""

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
from tests.faults.laboratory import Bench

Line = dict[str, Any]


@pytest.fixture(scope="module")
def real_run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the store and the histories of a run: some documents are done, one twice, one was cancelled."""
    bench = Bench("sqlite", tmp_path_factory.mktemp("run"), effort=1.0, seed=1)
    with bench.lab() as lab:
        lab.submit(4)
        (last,) = lab.submit(1, until=str(bench.folder / "cancelled"))
        with lab.workers(1):
            lab.until(lambda: lab.done() == 4, "not all are done")
            lab.decide_about("rewind", "00000")
            lab.decide_about("cancel", last)
            (bench.folder / "cancelled").touch()
            lab.settle()
    assert bench.violations == []
    return bench.folder


@pytest.fixture
def run(real_run: Path, tmp_path: Path) -> Path:
    """A copy of it, to be doctored."""
    return Path(shutil.copytree(real_run, tmp_path / "run"))


def found(run: Path) -> str:
    return "\n".join(checker.violations(f"sqlite:///{run}/lab.db", run / "histories"))


def doctor_books(run: Path, *statements: str) -> None:
    with closing(sqlite3.connect(run / "lab.db")) as db:
        for statement in statements:
            assert db.execute(statement).rowcount, statement
        db.commit()


def doctor_histories(run: Path, doctored: Callable[[Line], Line | None]) -> None:
    """Changes lines of the histories, or leaves them out."""
    changed = 0
    for file in (run / "histories").glob("*.jsonl"):
        before = [json.loads(line) for line in file.read_text().splitlines()]
        after = [doctored(json.loads(json.dumps(line))) for line in before]
        changed += before != after
        file.write_text("".join(json.dumps(line) + "\n" for line in after if line))
    assert changed


def test_a_real_run_is_found_to_be_in_order(run: Path) -> None:
    assert found(run) == ""


ONE = "(select id from hf_document where key = '00001')"
STEP = "(select id from hf_step where name = '{}')"
ITEMS = f"document_id = {ONE} and step_id = {STEP}"
ROW = "batch, key, generation, step, item, value"


@pytest.mark.parametrize(
    ("statement", "violation"),
    {
        "a duplicated effect": (
            f"insert into lab_effect ({ROW}) select {ROW} from lab_effect where key = '00001' and step = 'add'",
            "00001: the effect (0, 'add', 0) was committed 2 times",
        ),
        "a missing effect": (
            "delete from lab_effect where key = '00001' and step = 'weigh' and item = 1",
            "at 1; its effect is None",
        ),
        "an effect of nobody": (
            "update lab_effect set key = 'x' where key = '00001'",
            "x has effects and is not in the",
        ),
        "effects that went back": ("update lab_effect set id = -id where key = '00001'", "00001 went back"),
        "an effect of a generation that never was": (
            "update lab_effect set generation = 9 where key = '00001'",
            "is of a generation that the document never had",
        ),
        "a value that no body computed": (
            """update lab_effect set value = '{"made": "1-2-3", "item": 0, "of": null}' where key = '00001'""",
            "has a value that no body computed",
        ),
        "a value of another document": (
            "update lab_effect set value = (select value from lab_effect where key = '00002') where key = '00001'",
            "has a value that was computed for",
        ),
        "an item that was changed": (
            f"update hf_item set value = replace(value, 'made', 'mode') where {ITEMS.format('risk')}",
            "00001: risk keeps",
        ),
        "a lost document": ("delete from hf_document where key = '00001'", "1 of its documents are lost"),
        "a document that nobody counts": ("update hf_batch set expected = expected - 1", "expects 4 and has"),
        "a name that the manifest lacks": (
            "update hf_manifest set keys = replace(keys, '00001', 'x')",
            "does not name the documents that it has",
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
        "a dead letter for no reason": (
            f"update hf_document set state = 'dead', step_id = {STEP.format('add')} where key = '00001'",
            "is dead, and nothing was wrong with it",
        ),
        "a cancel that nobody asked for": (
            f"update hf_document set state = 'cancelled', step_id = {STEP.format('add')} where key = '00001'",
            "00001 is cancelled, and nobody asked for it",
        ),
        "a cancelled document that went on": (
            f"update hf_document set state = 'dead', step_id = {STEP.format('read')} where state = 'cancelled'",
            "00004 was cancelled, and is dead",
        ),
        "a document that did not end": (
            f"update hf_document set state = 'waiting', step_id = {STEP.format('add')}, due_at = 0 where key = '00001'",
            "00001 did not end: it is waiting at add",
        ),
        "a rewind that the journal does not know": (
            "update hf_document set generation = 1 where key = '00001'",
            "is at generation 1, and its journal tells of 0 rewinds",
        ),
        "an answered rewind that the journal forgot": (
            "delete from hf_journal where verb = 'rewind'",
            "00000 was rewound 1 to 1 times; its journal tells of 0",
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
def test_doctored_books_are_found_out(run: Path, statement: str, violation: str) -> None:
    doctor_books(run, statement)
    assert violation in found(run)


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
    ("doctored", "violation"),
    [
        (without_a_body, "has a value that no body computed"),
        (without_calls_of_effects, "no effect was called after its body"),
        (with_effects_before_their_bodies, "no effect was called after its body"),
        (with_another_source, "has a value that no body computed"),
        (without_submits, "is in the books, and nobody submitted it"),
        (with_a_submit_in_part, "was not answered, and is there in part: without [('lab-batch', '99999')]"),
        (with_an_answered_submit_more, "was answered, and 1 of its documents are lost"),
    ],
)
def test_doctored_histories_are_found_out(run: Path, doctored: Any, violation: str) -> None:
    doctor_histories(run, doctored)
    assert violation in found(run)


def test_a_step_that_was_not_given_all_is_found_out(run: Path) -> None:
    doctor_histories(run, with_another_source)
    shorter = "json_remove(value, '$.of[2]')"
    doctor_books(
        run,
        f"update lab_effect set value = {shorter} where step = 'add'",
        f"update hf_item set value = {shorter} where step_id = {STEP.format('add')}",
    )
    assert "add at 0 was made of" in found(run)


def test_a_cancelled_document_that_was_written_on_is_found_out(run: Path) -> None:
    with closing(sqlite3.connect(run / "lab.db")) as db:
        document, made = db.execute("select key, value ->> 'made' from lab_effect where step = 'read'").fetchone()
    doctor_books(
        run, f"update hf_document set state = 'cancelled', step_id = {STEP.format('add')} where key = '{document}'"
    )
    decision = {"verb": "cancel", "batch": "lab-batch", "keys": [document]}
    with (run / "histories" / "one-more.jsonl").open("w") as file:
        invoked = {"id": "x", "kind": "decision", "process": "x", "at": 1, "what": decision}
        completed = {"id": "x", "at": 2, "result": {"decided": [document]}}
        file.write(f"{json.dumps(invoked)}\n{json.dumps(completed)}\n")
    assert made
    assert "was cancelled, and the effect (0, 'read', 0) was written after that" in found(run)


def test_a_line_that_was_torn_by_a_kill_is_no_line(run: Path) -> None:
    (run / "histories" / "torn.jsonl").write_text('{"id": "x", "ki')
    assert found(run) == ""


def imported() -> Iterator[tuple[str, str]]:
    folder = Path(checker.__file__).parent
    for name in ("checker", "books", "histories"):
        for node in ast.walk(ast.parse((folder / f"{name}.py").read_text())):
            if isinstance(node, ast.Import):
                yield from ((name, one.name) for one in node.names)
            elif isinstance(node, ast.ImportFrom):
                yield name, node.module or ""


def test_the_checker_knows_nothing_of_the_engine() -> None:
    assert [one for one in imported() if one[1].partition(".")[0] == "holdfast"] == []
