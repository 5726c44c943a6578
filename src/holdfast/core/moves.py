"""Moves: the forward changes of a checkpoint, with everything that is committed with them."""

from __future__ import annotations

import re
from collections.abc import Callable, Container, Mapping, Sequence
from datetime import datetime, timedelta
from functools import lru_cache, partial
from typing import TYPE_CHECKING, Any, Literal, Protocol

from msgspec import Struct
from msgspec.structs import force_setattr, replace

from holdfast.core.errors import BodyError, StoreError, TransactionEnded
from holdfast.core.extents import UNKNOWN, Extents, of_reused_steps
from holdfast.core.model import Checkpoint, Claim, FailedItem, Failure, Item, Plan, State, SubmitResult
from holdfast.core.reasons import RECOVERABLE
from holdfast.core.text_limits import MAX_REASON, shorten

if TYPE_CHECKING:
    from holdfast.core.pipeline import Pipeline


class Tx(Protocol):
    """The transaction that an effect writes with. Its rows and the checkpoint are committed together.

    Two kinds of placeholders work on both databases: `?` with a list of parameters, and `:name` with a mapping. On
    PostgreSQL, `%s` and `%(name)s` work too; then `%` must be written as `%%`. With `?`, the JSON operator `?` of
    PostgreSQL is written `??`. Everything else in the SQL is that of the database.

    Attributes:
        dialect: `"sqlite"` or `"postgresql"`.
    """

    dialect: Literal["sqlite", "postgresql"]

    @property
    def connection(self) -> Any:
        """The connection of the database driver: `sqlite3.Connection` or `psycopg.Connection`.

        It is in the transaction, so that other libraries can write with it. It cannot commit, roll back or close: in an
        effect that fails the document. `holdfast.sqlalchemy.session(tx)` gives a session of SQLAlchemy.
        """

    def execute(self, sql: str, parameters: Any = (), /) -> Any:
        """Run one statement.

        Args:
            sql: The statement.
            parameters: Its parameters: a list for `?`, a mapping for `:name`.

        Returns:
            The cursor of the database driver, to read rows from.

        Raises:
            BodyError: The statement would commit or roll back.
        """

    def executemany(self, sql: str, parameters: Any, /) -> Any:
        """Run one statement once for each set of parameters.

        Args:
            sql: The statement.
            parameters: Many sets of parameters, all lists or all mappings.

        Returns:
            The cursor of the database driver.

        Raises:
            BodyError: The statement would commit or roll back.
        """

    def submit(
        self,
        pipeline: Pipeline,
        key: str,
        payload: Any = None,
        *,
        batch: str | None = None,
        fingerprint: str = "",
        priority: int = 0,
    ) -> SubmitResult:
        """Submit a document to another pipeline, or to the same one, within this transaction.

        It is there if the transaction is committed, exactly once with the checkpoint, and not otherwise. The pipeline
        is declared in the store if it is not yet. Its own workers process the document: `holdfast.work(other, store)`.

        Args:
            pipeline: The pipeline that the document goes through.
            key: The name of the document within its batch.
            payload: The JSON that its bodies need.
            batch: The name of its batch. In an effect: the name of the batch of the document whose effect this is.
                Elsewhere it must be given.
            fingerprint: A text that changes when its content changes. A hash of the payload by default.
            priority: Documents with a higher number are claimed first.

        Returns:
            Whether the document was new, changed or unchanged.

        Raises:
            BatchSealed: The batch is sealed or closed, and the document is new or changed.
            PlanRefused: The pipeline has changed, and open documents in the store cannot go on with it.
            CannotKeep: The payload is not JSON, or the key, the fingerprint or the name of the batch cannot be stored.
            BodyError: `batch` is missing outside of an effect, or the transaction has ended.

        Example:
            @extract.effect
            def index_pages(tx, doc, pages):
                for page in pages:
                    tx.submit(page_index, f"{doc.key}/{page['number']}", page)
        """


Effect = Callable[[Tx], None]

_ENDS = re.compile(
    r"(?:\s|;|--[^\n]*\n|/\*.*?\*/)*(?:commit|end|abort|rollback(?!\s+(?:(?:transaction|work)\s+)?to\b))\b",
    re.IGNORECASE | re.DOTALL,
)
_OPAQUE = re.compile(r"'(?:[^']|'')*'|\"[^\"]*\"|(?P<tag>\$\w*\$).*?(?P=tag)|--[^\n]*|/\*.*?\*/", re.DOTALL)
"""Texts, names, quoted bodies and comments: a semicolon in them ends no statement."""
_BLOCK = re.compile(r"\s*create\s.*?\bbegin\b", re.IGNORECASE | re.DOTALL)
"""The start of a trigger or a function with a body of statements. Its `end` ends the body."""


def refuse_to_end(sql: str) -> None:
    """Raise BodyError for a statement of an effect that would end the transaction."""
    if ends_transaction(sql):
        raise BodyError("an effect must leave commit and rollback alone: its rows are committed with the checkpoint")


@lru_cache(1024)
def ends_transaction(sql: str) -> bool:
    """Return True if a text of one or more statements ends the transaction in which it runs."""
    if ";" not in sql:
        return _ENDS.match(sql) is not None
    plain = _OPAQUE.sub(" ", sql)
    return not _BLOCK.match(plain) and any(_ENDS.match(statement) for statement in plain.split(";"))


class MoveWarning(Struct, frozen=True):
    """Something about a document that a person should know, and that stops nothing. `code` is for programs."""

    code: str
    step: str
    sentence: str


class Move(Struct, frozen=True, gc=False):
    """One forward change of a checkpoint, with the items, the effect and the state that are committed with it.

    `timeout` is how long the document may stay where the move leads: in a step, or at a gate without a decision.
    `mended` has the positions of items that were set aside and are done now. `effects` has, by step, the generation
    whose rows are there after the move, or None if the step has no rows then; other steps stay as they are. `extents`
    replaces that of the document, if given. `rows_left` has the steps that wrote rows in an earlier generation which
    nothing can remove. `totals` replaces that of the document, if given: by step, how many items it said it will yield.
    `warnings` is not stored: who commits the move tells people.
    """

    claim: Claim
    before: Checkpoint
    after: Checkpoint
    state: Literal["running", "done", "paused"] = "running"
    items: Sequence[Item] = ()
    asides: Sequence[FailedItem] = ()
    mended: Sequence[int] = ()
    effect: Effect | None = None
    timeout: timedelta | None = None
    reason: str = ""
    code: str = ""
    effects: dict[str, int | None] | None = None
    extents: Extents | None = None
    rows_left: tuple[str, ...] = ()
    totals: Mapping[str, int] | None = None
    warnings: tuple[MoveWarning, ...] = ()

    @property
    def is_progress(self) -> bool:
        """True if attempts are counted from zero again. Only setting items aside is no progress."""
        return not self.asides or bool(self.items) or bool(self.mended)


def effect_name(move: Move) -> str:
    """Return the effect of a move as messages name it: with the name of its function, and its step."""
    body: Any = move.effect
    while isinstance(body, partial):
        body = body.args[0] if body.args else body.func
    name = getattr(body, "__name__", "") or getattr(body, "name", repr(body))  # the undo of a step has the step
    return f"the effect {name!r} of step {move.before.step!r}"


def transaction_ended(effect: str, *, how: str = "") -> TransactionEnded:
    """Return the error for an effect that ended its transaction, or tried to.

    Args:
        effect: The effect, as messages name it.
        how: The statement that was refused, such as COMMIT. Empty if the transaction was really ended.
    """
    rule = (
        "Its rows are committed with the checkpoint: leave out commit, rollback and begin, also those that a driver or "
        "an ORM runs (commit(), `with connection:`, executescript())"
    )
    if how:
        return TransactionEnded(f"{effect} tried to run {how}, which was refused. {rule}")
    return TransactionEnded(
        f"{effect} ended the transaction that it was given: it ran rollback, a statement that rolls back "
        f"everything, or a commit, which was refused. {rule}. What it wrote after that may have been kept, and cannot "
        "be taken back: look at its tables before you redrive the document"
    )


def rewound(claim: Claim, *, to: str, steps: Sequence[str], gates: Container[str] = ()) -> Claim:
    """Return the claim after a rewind: a new generation that reuses the output of the steps before `to`.

    Args:
        claim: The claim.
        to: The step to which the document goes back.
        steps: All steps of the pipeline, in order.
        gates: Which of them are gates.

    Raises:
        StoreError: The document has not reached `to`, so there is no output to reuse.
    """
    at, before = claim.checkpoint, steps[: steps.index(to)]
    if at.step in before:
        raise StoreError(
            f"the document {claim.key!r} is at {at.step!r} and cannot be rewound to {to!r}, which comes later: "
            f"rewind it to {at.step!r} or to a step before it"
        )
    reuses = {step: (claim.reuses or {}).get(step, at.generation) for step in before}
    counts = {"losses": 0, "deferrals": 0, "deferred_for": timedelta(0), "interruptions": 0, "held_before": False}
    extents = _rewound_extents(claim, steps, [step for step in before if step not in gates])
    after = Checkpoint(at.generation + 1, to, None, at.moves + 1)
    return replace(claim, checkpoint=after, reuses=reuses, extents=extents, totals=None, **counts)


def _rewound_extents(claim: Claim, steps: Sequence[str], reused: Sequence[str]) -> Extents | None:
    """Return the extents of reused steps. The place of a step that the pipeline has no more is not known."""
    if not reused:
        return None
    extents = claim.extents or {}
    unknown = {UNKNOWN: 1} if any(step.isdecimal() for step in extents) else {}
    return of_reused_steps({**extents, **unknown}, steps, reused)


def reuses_of(plan: Plan, claim: Claim) -> dict[int, int]:
    """Return the generations that a claim reuses, by the ids of their steps."""
    return {plan.step_ids[step]: made for step, made in (claim.reuses or {}).items()}


class Accepted(Struct, frozen=True):
    """The move was committed."""


class Lost(Struct, frozen=True):
    """Another worker holds the document, or it is not where the move starts. Nothing of the move was written."""


class Refused(Struct, frozen=True):
    """The effect failed, or the plan does not allow the move. Nothing was written; the claim is still held."""

    error: BaseException


CommitResult = Accepted | Lost | Refused
ACCEPTED = Accepted()
LOST = Lost()


Costs = Literal["attempt", "crash", "loss", "deferral", "interruption", "nothing"]
"""What a release counts against a document."""


class Release(Struct, frozen=True):
    """How a worker gives a document back without moving it: failed, put off, interrupted or paused.

    `costs` is what is counted: the attempt that was counted at the claim, something else instead, or nothing. `step` is
    the step that failed. `delay` is how long a waiting document waits, or how long a paused one may wait for a
    decision; 0 means no limit. `code` is the reason for programs (see holdfast.core.reasons). `outage` says that the
    failure counts for the circuit of its step; it is not stored. A long reason is cut.
    """

    claim: Claim
    who: str
    state: State
    verb: Literal["fail", "release", "pause", "defer"]
    delay: timedelta = timedelta(0)
    until: datetime | None = None
    costs: Costs = "attempt"
    failure: Failure | None = None
    reason: str = ""
    step: str = ""
    code: str = ""
    outage: bool = False

    def __post_init__(self) -> None:
        if len(self.reason) > MAX_REASON:
            force_setattr(self, "reason", shorten(self.reason, MAX_REASON))

    @property
    def recoverable(self) -> bool | None:
        """True if the reason can go away by itself, False if it cannot. None if nobody knows."""
        return RECOVERABLE.get(self.code) if self.failure is None else self.failure.recoverable

    @property
    def detail(self) -> dict[str, Any]:
        """The details of its journal line."""
        return {
            "was": "running",
            "state": self.state,
            "reason": self.reason,
            "error": self.failure,
            "costs": self.costs,
        }
