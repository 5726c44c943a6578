"""Circuits: a step is paused for all documents while a service is away, and goes on by itself."""

from __future__ import annotations

from datetime import datetime, timedelta

from msgspec import Struct

from holdfast.core.errors import DefinitionError
from holdfast.core.known_errors import CATEGORIES, RECOVERABLE_CATEGORIES, ErrorCategory

OUTAGES: tuple[ErrorCategory, ...] = (
    "authentication",
    "permission",
    "configuration",
    "rate_limit",
    "unreachable",
    "timeout",
    "server_error",
)
"""The categories of errors that are a matter of the service or its settings, and not of one document."""

NO_ITEM: tuple[ErrorCategory, ...] = ("authentication", "configuration", "rate_limit", "unreachable")
"""Categories of which no single item is the reason. The others may be: one text can make a service fail."""


class Circuit(Struct, frozen=True, kw_only=True):
    """When a step is paused for all documents, and how it goes on.

    If the calls of a step fail one after the other with errors that no document is to blame for, the circuit of the
    step opens. Then no worker calls the step. From time to time one document is tried, over all workers. If that
    succeeds, the circuit closes, and the step goes on. Documents that failed because of it get their attempts back.

    A step has this circuit by default. `circuit=None` switches it off, for a step whose documents call different
    services. If not every document calls the service, raise errors with the attribute `is_outage = True`: no document
    dies of them, even if the step works for others.

    Args:
        failures: How many calls have to fail in a row, in one worker.
        categories: The categories of errors that count. See `holdfast.error_category`.
        errors: Classes of errors that count too.
        probe: How long after it opened the first document is tried. Each next wait is twice as long.
        ceiling: The longest wait between two tries.
        patience: How long `drain` waits for an open circuit when there is nothing else to do. It waits for three tries
            only if a person has to do something first, such as for a wrong key, or if fewer calls than `failures`
            failed in a row: a document used up its attempts before.

    Raises:
        DefinitionError: A value is out of range.

    Example:
        @papers.step(circuit=holdfast.Circuit(failures=10, probe=timedelta(seconds=30)))
        def embed(doc): ...
    """

    failures: int = 5
    categories: tuple[ErrorCategory, ...] = OUTAGES
    errors: tuple[type[BaseException], ...] = ()
    probe: timedelta = timedelta(seconds=5)
    ceiling: timedelta = timedelta(minutes=5)
    patience: timedelta = timedelta(hours=1)

    def __post_init__(self) -> None:
        if not self.failures >= 1:
            raise DefinitionError("Circuit(failures=) must be at least 1")
        if unknown := [name for name in self.categories if name not in CATEGORIES]:
            raise DefinitionError(f"Circuit(categories=) has {unknown[0]!r}; there are: {', '.join(CATEGORIES)}")
        if self.probe <= timedelta(0) or self.ceiling < self.probe or self.patience < timedelta(0):
            raise DefinitionError("Circuit needs 0 < probe <= ceiling, and a patience that is not negative")

    def counts(self, error: BaseException, category: str) -> bool:
        """Check whether an error counts as a failure of the service.

        Args:
            error: The error.
            category: Its category.

        Returns:
            True if no single document is to blame for it.
        """
        return category in self.categories or isinstance(error, self.errors)

    def wait(self, probes: int) -> timedelta:
        """Return how long to wait before the next document is tried.

        Args:
            probes: How many documents were tried in vain since the circuit opened.

        Returns:
            The wait.
        """
        doubled: timedelta = self.probe * 2 ** min(probes, 30)
        return min(doubled, self.ceiling)


DEFAULT_CIRCUIT = Circuit()
"""The circuit of a step that declares none."""


class CircuitStatus(Struct, frozen=True):
    """The circuit of a step, as the store knows it.

    Attributes:
        pipeline: The pipeline.
        step: The step.
        is_open: True if the step is paused for all documents.
        opened_at: When it opened. None if it is closed.
        opened_by: The worker that opened it.
        failures: How many calls had failed in a row.
        error: The class of the last error.
        category: The category of that error.
        reason: The error, for people.
        probes: How many documents were tried in vain since it opened.
        probe_at: When the next document may be tried. None if it is closed.
        probe_in: How long that is from now.
        closed_at: When it was closed last.
        closed_by: Who closed it: a worker, or a person.
        close_reason: Why.
    """

    pipeline: str
    step: str
    is_open: bool
    opened_at: datetime | None
    opened_by: str
    failures: int
    error: str
    category: str
    reason: str
    probes: int
    probe_at: datetime | None
    probe_in: timedelta | None
    closed_at: datetime | None
    closed_by: str
    close_reason: str

    @property
    def recoverable(self) -> bool | None:
        """True if the reason can go away by itself, False if a person has to do something. None if nobody knows."""
        return self.category in RECOVERABLE_CATEGORIES if self.category else None
