"""Budgets of pages, tokens and money: they stop a run, and a run that goes on spends only the rest."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from holdfast.pipelines import rag
from holdfast.pipelines.rag.collections.spending import SPENT, PriceMissing, Spending, SpendingLimits, count_tokens
from holdfast.pipelines.rag.collections.status import read_counters
from holdfast.stores.protocol import Store

pytest.importorskip("numpy", reason="document search needs the extra rag")

Open = Callable[..., rag.Library]
FILES = 12


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    folder = tmp_path / "letters"
    folder.mkdir()
    for place in range(FILES):
        (folder / f"{place:02}.txt").write_text(f"The tide of day {place} comes twice. " * 20)
    return folder


def tokens_of(folder: Path) -> int:
    return count_tokens([file.read_text().strip() for file in folder.iterdir()])


def test_a_budget_of_pages_stops_a_run_and_the_next_run_spends_only_the_rest(
    each_store: Store, opened: Open, folder: Path
) -> None:
    library = opened(each_store, "store")
    library.limit_spending(SpendingLimits(pages=5))
    report = library.ingest(str(folder), threads=1)
    assert report.stopped_by == SPENT
    assert 5 <= library.spent.pages < FILES
    spent = library.spent
    again = opened(each_store)
    assert again.ingest(str(folder), threads=1).stopped_by == SPENT
    assert again.spent == spent, "nothing was left to spend"
    again.limit_spending(SpendingLimits(pages=100))
    assert again.ingest(str(folder), threads=1).stopped_by == ""
    assert again.spent.pages == FILES == read_counters(each_store, "documents").pages_extracted


def test_a_budget_of_tokens_is_never_exceeded(each_store: Store, opened: Open, folder: Path) -> None:
    library = opened(each_store, "store")
    library.limit_spending(SpendingLimits(tokens=700))
    assert library.ingest(str(folder)).stopped_by == SPENT
    assert 0 < library.spent.tokens <= 700
    library.limit_spending(SpendingLimits(tokens=1_000_000))
    library.ingest(str(folder))
    assert library.spent.tokens == tokens_of(folder), "no text was counted twice"


def test_a_budget_of_money_needs_a_price_and_is_never_exceeded(store: Store, opened: Open, folder: Path) -> None:
    library = opened(store, "store")
    with pytest.raises(PriceMissing, match="needs a price"):
        library.limit_spending(SpendingLimits(money=5.0))
    limits = library.limit_spending(SpendingLimits(money=0.0005, price=1.0))
    assert library.ingest(str(folder)).stopped_by == SPENT
    assert 0 < library.spent.cost(limits) <= 0.0005
    assert library.limit_spending(SpendingLimits(money=0.001)).price == 1.0
    merged = library.limit_spending(SpendingLimits(pages=7))
    assert (merged.money, merged.price, merged.pages) == (0.001, 1.0, 7)


def test_pages_of_a_service_cost_money_and_others_do_not() -> None:
    limits = SpendingLimits(money=5.0, page_price=1.5)
    assert Spending(pages=2000).cost(limits) == 0
    assert Spending(pages=2000, service_pages=1000).cost(limits) == 1.5


KILLED = """
import os, sys
import holdfast
from holdfast.pipelines import rag
from holdfast.pipelines.rag.collections.spending import SpendingMeter

save = SpendingMeter.save_tokens

def save_and_die(*args):
    save(*args)
    os._exit(9)

SpendingMeter.save_tokens = save_and_die
with holdfast.open(sys.argv[1]) as store:
    rag.Library(store).ingest(sys.argv[2], threads=1)
"""


def test_what_a_killed_run_did_not_commit_is_not_counted(
    store: Store, opened: Open, folder: Path, tmp_path: Path
) -> None:
    library = opened(store, "store")
    library.limit_spending(SpendingLimits(tokens=1_000_000))
    killed = subprocess.run([sys.executable, "-c", KILLED, store.url, str(folder)], timeout=100, check=False)
    assert killed.returncode == 9
    assert library.spent.tokens == 0
    library.ingest(str(folder))
    assert read_counters(store, "documents").chunks_indexed == FILES
    assert (library.spent.pages, library.spent.tokens) == (FILES, tokens_of(folder))


def test_a_collection_without_a_budget_counts_nothing(store: Store, opened: Open, folder: Path) -> None:
    library = opened(store, "store")
    library.limit_spending(SpendingLimits(pages=100))
    library.remove_spending_limits()
    assert library.spending_limits is None
    library.ingest(str(folder))
    assert library.spent == Spending()


def test_budgets_go_with_their_collection(store: Store, opened: Open, folder: Path) -> None:
    library = opened(store, "store")
    library.limit_spending(SpendingLimits(pages=3))
    library.ingest(str(folder))
    library.delete()
    with store.reading() as tx:
        for table in ("rag_budget", "rag_spending"):
            assert tx.execute(f"select count(*) from {table}").fetchone()[0] == 0
