"""Budgets of pages, tokens and money: how much the ingests of a collection may spend, over all runs together.

What was spent is written in the transaction that commits the work, so a kill neither loses nor doubles it. Work that
was not committed is done again. A budget is checked before each page that is read, and before texts are embedded.
"""

from __future__ import annotations

import mmap
import os
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path
from time import monotonic
from typing import NoReturn

import msgspec
from msgspec import Struct

from holdfast.core.codec import encode_json
from holdfast.core.errors import HoldfastError, RetryLater
from holdfast.core.formatting import format_count, format_money
from holdfast.core.moves import Tx
from holdfast.engine.budget import Budget
from holdfast.pipelines.rag.sql_statements import has_table, load_statements
from holdfast.pipelines.rag.values import Page
from holdfast.stores.protocol import Store

SQL = load_statements(Path(__file__).parent / "queries")
TOKEN = 4
"""About how many characters a token has."""
RETRY_AFTER = timedelta(seconds=1)
"""How long a document is postponed that the budget does not allow."""
CHECK_SECONDS = 1.0
"""How often what other processes have spent is read."""
SPENT = "the budget of the collection is spent"


class PriceMissing(HoldfastError):
    """Money is limited, and no price is known by which it is counted."""


class SpendingLimits(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """How much the ingests of a collection may spend, over all runs together. None: no limit.

    Attributes:
        pages: How many pages may be read.
        tokens: How many tokens may be embedded. A token is counted as four characters.
        money: How much the services may cost, by the two prices.
        price: The price of a million tokens of the embedding service.
        page_price: The price of a thousand pages of the reading service.

    Raises:
        ValueError: A limit or a price is less than 0.

    Example:
        library.limit_spending(rag.SpendingLimits(money=5.00, price=0.02))
    """

    pages: int | None = None
    tokens: int | None = None
    money: float | None = None
    price: float | None = None
    page_price: float | None = None

    def __post_init__(self) -> None:
        values = (self.pages, self.tokens, self.money, self.price, self.page_price)
        if any(value is not None and not value >= 0 for value in values):
            raise ValueError("a budget and its prices must be 0 or more")


class Spending(Struct, frozen=True, kw_only=True):
    """What the ingests of a collection have spent since its budget was set.

    Attributes:
        pages: How many pages were read.
        service_pages: How many of them were read by a service.
        tokens: About how many tokens were embedded.
    """

    pages: int = 0
    service_pages: int = 0
    tokens: int = 0

    def cost(self, limits: SpendingLimits) -> float:
        """Return what the services cost, by the prices of a budget.

        Args:
            limits: The budget.

        Returns:
            The cost.
        """
        return self.tokens * (limits.price or 0) / 1_000_000 + self.service_pages * (limits.page_price or 0) / 1_000


_limits = msgspec.json.Decoder(SpendingLimits)


def create_tables(tx: Tx) -> None:
    """Create the tables of budgets if they are missing."""
    SQL.run(tx, "create_budget_table")
    SQL.run(tx, "create_spending_table")


def read_limits(tx: Tx, collection: str) -> SpendingLimits | None:
    """Return the budget of a collection, or None."""
    row = SQL.run(tx, "budget", collection=collection).fetchone() if has_table(tx, "rag_budget") else None
    return _limits.decode(row[0]) if row else None


def read_spent(tx: Tx, collection: str) -> Spending:
    """Return what a collection has spent since its budget was set."""
    pages, service_pages, tokens = SQL.run(tx, "spent", collection=collection).fetchone()
    return Spending(pages=pages, service_pages=service_pages, tokens=tokens)


def read_budget(store: Store, collection: str) -> tuple[SpendingLimits | None, Spending]:
    """Return the budget of a collection, if it has one, and what was spent of it."""
    with store.reading() as tx:
        limits = read_limits(tx, collection)
        return limits, read_spent(tx, collection) if limits else Spending()


def save_limits(tx: Tx, collection: str, limits: SpendingLimits) -> None:
    """Give a collection a budget. What it has spent since its first budget counts."""
    SQL.run(tx, "save_budget", collection=collection, limits=encode_json(limits))


def delete_limits(tx: Tx, collection: str) -> None:
    """Delete the budget of a collection, and what it has spent."""
    SQL.run(tx, "delete_budget", collection=collection)
    SQL.run(tx, "delete_spending", collection=collection)


def count_tokens(texts: Sequence[str]) -> int:
    """Return about how many tokens texts have."""
    return sum(-(-len(text) // TOKEN) for text in texts)


def describe_spending(limits: SpendingLimits | None, spent: Spending) -> str:
    """Return what was spent of each limit: "80 of 100 pages, about 1.20 of 5.00"."""
    parts: list[str] = []
    if limits is None:
        return ""
    if limits.pages is not None:
        parts.append(f"{spent.pages:,} of {format_count(limits.pages, 'page')}")
    if limits.tokens is not None:
        parts.append(f"about {spent.tokens:,} of {format_count(limits.tokens, 'token')}")
    if limits.money is not None:
        parts.append(f"about {format_money(spent.cost(limits))} of {format_money(limits.money)}")
    return ", ".join(parts)


class SpendingMeter:
    """Counts what this process and its forked children spend, and says when the budget of a collection is over.

    Forked children write into the same memory, each into slots of its own. Only threads that embed share a slot; the
    lock is theirs. Children that read pages are forked at any time, so they take no lock.
    """

    SLOTS = 512
    FIELDS = 4
    WIDTH = 8

    def __init__(self, store: Store, collection: str) -> None:
        self._store = store
        self._collection = collection
        self._slots = memoryview(mmap.mmap(-1, self.SLOTS * self.FIELDS * self.WIDTH)).cast("q")
        self._limits: SpendingLimits | None = None
        self._before = Spending()
        self._committed = Spending()
        self._checked = 0.0
        self._lock = threading.Lock()

    def refresh(self) -> None:
        """Read the budget, and what was spent of it. Call it before work begins: what runs now is not counted."""
        with self._store.reading() as tx:
            self._limits = read_limits(tx, self._collection)
            self._before = self._committed = read_spent(tx, self._collection) if self._limits else Spending()
        for slot in range(len(self._slots)):
            self._slots[slot] = 0

    def require_rest(self) -> None:
        """Raise RetryLater if the budget is spent."""
        if self._limits is not None and self._is_spent(self._limits, self._now()):
            self._refuse()

    @contextmanager
    def spending_tokens(self, tokens: int) -> Iterator[None]:
        """Count tokens that are embedded in the block. If the block fails, they do not count.

        Raises:
            RetryLater: The budget does not suffice for them.
        """
        if self._limits is None or not tokens:
            yield
            return
        self._look_at_others()
        with self._lock:
            self._add(2, tokens)
            if self._exceeds(self._limits, self._now()):
                self._add(2, -tokens)
                self._refuse()
        try:
            yield
        except BaseException:  # also a cancelled call: it made no vectors
            with self._lock:
                self._add(2, -tokens)
            raise

    def count_page(self, page: Page) -> None:
        """Count a page that was read."""
        if self._limits is not None:
            self._add(0, 1)
            self._add(1, page.how == "azure")

    def save_pages(self, tx: Tx, pages: Sequence[Page]) -> None:
        """Record pages in the transaction that commits them."""
        by_service = sum(page.how == "azure" for page in pages)
        self._save(tx, pages=len(pages), service_pages=by_service)

    def save_tokens(self, tx: Tx, tokens: int) -> None:
        """Record tokens in the transaction that commits their vectors."""
        if tokens:
            self._save(tx, tokens=tokens)

    def reason(self) -> str:
        """Return why work stops: the budget is spent. Empty if it is not, or if there is none."""
        limits = self._limits
        if limits is None:
            return ""
        if any(self._sum(3)) or self._is_spent(limits, self._now()):
            return SPENT
        return ""

    def _look_at_others(self) -> None:
        """Read what other processes have committed, now and then."""
        if monotonic() - self._checked > CHECK_SECONDS:
            self._checked = monotonic()
            with self._store.reading() as tx:
                self._committed = read_spent(tx, self._collection)

    def _refuse(self) -> NoReturn:
        self._add(3, 1)
        raise RetryLater(SPENT, after=RETRY_AFTER)

    def _save(self, tx: Tx, *, pages: int = 0, service_pages: int = 0, tokens: int = 0) -> None:
        row = {"pages": pages, "service_pages": service_pages, "tokens": tokens}
        SQL.run(tx, "add_spending", collection=self._collection, **row)

    def _now(self) -> Spending:
        pages, service_pages, tokens = (sum(self._sum(field)) for field in range(3))
        before, committed = self._before, self._committed
        return Spending(
            pages=max(before.pages + pages, committed.pages),
            service_pages=max(before.service_pages + service_pages, committed.service_pages),
            tokens=max(before.tokens + tokens, committed.tokens),
        )

    @staticmethod
    def _exceeds(limits: SpendingLimits, spent: Spending) -> bool:
        tokens = limits.tokens is not None and spent.tokens > limits.tokens
        return tokens or (limits.money is not None and spent.cost(limits) > limits.money)

    @staticmethod
    def _is_spent(limits: SpendingLimits, spent: Spending) -> bool:
        pages = limits.pages is not None and spent.pages >= limits.pages
        tokens = limits.tokens is not None and spent.tokens >= limits.tokens
        return pages or tokens or (limits.money is not None and spent.cost(limits) >= limits.money)

    def _sum(self, field: int) -> list[int]:
        return self._slots[field * self.SLOTS : (field + 1) * self.SLOTS].tolist()

    def _add(self, field: int, number: int) -> None:
        self._slots[field * self.SLOTS + os.getpid() % self.SLOTS] += number


class SpendingBudget(Budget):
    """A budget of a worker that is over when the budget of the collection is spent, or when another one is over.

    Args:
        meter: Knows what was spent.
        within: The other one.
    """

    def __init__(self, meter: SpendingMeter, within: Budget | None = None) -> None:
        super().__init__(within=within)
        self._meter = meter
        self.is_spent = False

    def is_over(self) -> bool:
        """Check whether one of the budgets is over.

        Returns:
            True after `stop`, or when one is over.
        """
        if not super().is_over() and (reason := self._meter.reason()):
            self.is_spent = True
            self.stop(reason)
        return super().is_over()


def merge_limits(known: SpendingLimits | None, given: SpendingLimits) -> SpendingLimits:
    """Return a budget with the limits that are given, and the others as they were.

    Raises:
        PriceMissing: Money is limited, and no price is known.
    """
    values = {} if known is None else msgspec.structs.asdict(known)
    values |= {name: value for name, value in msgspec.structs.asdict(given).items() if value is not None}
    merged = SpendingLimits(**values)
    if merged.money is not None and merged.price is None and merged.page_price is None:
        raise PriceMissing(
            "a budget of money needs a price: --price of a million tokens, or --page-price of a thousand pages. A "
            "budget of time needs a unit, such as 90s"
        )
    return merged
