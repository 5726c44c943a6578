from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.cli.conftest import Run

OFFERS = """
import holdfast

offers = holdfast.Pipeline("offers")

@offers.step
def draft(doc):
    return doc.key

legal = offers.gate("legal")
price = offers.gate("price")

@offers.step
def send(doc):
    return {"legal": doc.decision(legal).who, "price": doc.decision(price).answer}
"""


@pytest.fixture
def offers(holdfast: Run, folder: Path) -> None:
    """One document that waits at the gate legal."""
    (folder / "offers.py").write_text(OFFERS)
    assert holdfast("run", "offers.py", "docs/a.txt").exit_code == 0


@pytest.mark.usefixtures("offers")
def test_waiting_documents_are_listed_with_commands_to_decide(holdfast: Run) -> None:
    told = holdfast("review", "list").stdout
    assert "1 document waits for a decision:" in told
    assert "default/docs/a.txt  at legal" in told
    assert "holdfast review approve docs/a.txt --reason" in told
    answer = json.loads(holdfast("review", "list", "--json", "--step", "legal").stdout)
    assert (answer["total"], answer["documents"][0]["at"]) == (1, "legal")
    assert json.loads(holdfast("review", "list", "--json", "--step", "price").stdout)["total"] == 0


def test_without_waiting_documents_it_says_so(holdfast: Run) -> None:
    holdfast("run", "papers.py", "docs")
    assert holdfast("review", "list").stdout == "No document waits for a decision.\n"


@pytest.mark.usefixtures("offers")
def test_approvals_and_answers_are_read_by_the_steps_behind(holdfast: Run) -> None:
    told = holdfast("review", "approve", "docs/a.txt", "--who", "ann", "--reason", "lawful").stdout
    assert told == "docs/a.txt is approved at legal; it is waiting at price now.\n"
    holdfast("run", "offers.py")
    answer = '{"euro": 12}'
    assert holdfast("review", "answer", "docs/a.txt", answer, "--who", "bob", "--reason", "fair").exit_code == 0
    assert 'at price: fair; answered {"euro":12}; was paused, now waiting (by bob)' in " ".join(
        holdfast("show", "docs/a.txt").stdout.split()
    )
    holdfast("run", "offers.py")
    story = json.loads(holdfast("show", "docs/a.txt", "--items", "--json").stdout)
    assert story["state"] == "done"
    assert story["items"][-1]["value"] == {"legal": "ann", "price": {"euro": 12}}


@pytest.mark.usefixtures("offers")
def test_a_rejected_document_is_a_dead_letter_with_the_reason(holdfast: Run) -> None:
    assert holdfast("review", "reject", "docs/a.txt", "--who", "ann", "--reason", "not lawful").exit_code == 0
    assert "not lawful" in holdfast("dead", "list").stdout
    told = holdfast("explain", "docs/a.txt").stdout
    assert ", rejected by ann: not lawful. Its history: `holdfast show docs/a.txt`" in told


@pytest.mark.usefixtures("offers")
def test_a_second_reviewer_is_shown_who_decided(holdfast: Run) -> None:
    holdfast("review", "reject", "docs/a.txt", "--who", "ann", "--reason", "not lawful")
    result = holdfast("review", "approve", "docs/a.txt", "--who", "bob", "--reason", "fine by me")
    assert result.exit_code == 2
    assert (
        'docs/a.txt does not wait for a decision: it is dead; ann decided (reject) at legal: "not lawful"'
        in result.stderr
    )


@pytest.mark.usefixtures("offers")
def test_an_approval_that_names_a_gate_never_passes_another(holdfast: Run) -> None:
    holdfast("review", "approve", "docs/a.txt", "--step", "legal", "--reason", "lawful", "--who", "ann")
    holdfast("run", "offers.py")
    result = holdfast("review", "approve", "docs/a.txt", "--step", "legal", "--reason", "lawful")
    assert result.exit_code == 2
    assert "it waits at price, not at legal; ann decided (resume) at legal" in result.stderr
