"""Faults: what may happen at any point, by choice."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from datetime import timedelta
from sqlite3 import IntegrityError
from typing import TYPE_CHECKING

from holdfast.core.errors import HoldfastError, StoreGone
from holdfast.ops.withdraw import Withdrawal
from tests.simulation.fake_os import Killed, SimulatedProcess, SimulatedThread
from tests.simulation.invariants import CLAIM_VERBS, MOVE_VERBS
from tests.simulation.pipelines import ADDITIONS, GATES, REMOVABLE, PipelineVersion, pipeline_of
from tests.simulation.watched_stores import LEASE

if TYPE_CHECKING:
    from tests.simulation.schedule import Schedule

PROBABILITIES = (0.03, 0.01, 0.1)
"""Probabilities of a fault at each point. A schedule has one of them."""
IDLE_PROBABILITY = 0.25
"""Probability of a fault when no document can make progress without one."""
MAX_FAULTS = 8
TURNS_AFTER_LAST_FAULT = 30
"""How many turns the last fault gets to have consequences, before the recovery begins."""
FREQUENT = ("kill", "freeze", "cut off", "deliver again", "deliver again")
"""Faults that are drawn more often than the rest."""
COMMIT_FAULTS = ("kill", "cut off")
"""Faults that may happen inside a commit."""
REDELIVERABLE = 8
"""How many of the last calls may be delivered a second time."""
SKEWS = (0.0, 2.0, -2.0, 4.0, 3600.0)
FREEZE_LEASES = (0.5, 1.3, 2.5)
"""How long a process is frozen, in leases."""
OUTAGE_SECONDS = (1.0, 4.0, 15.0)
"""For how many seconds a service is away."""
HOLD_SECONDS = (0.0, 1.0, 5.0)
"""For how many seconds documents are put on hold; 0 is until a person resumes them."""


class Faults:
    """Chooses which fault happens at a point, and to which process or document."""

    def __init__(self, schedule: Schedule) -> None:
        self._schedule = schedule
        self._choices = schedule.choices
        self._chance = PROBABILITIES[schedule.choices.one_of(len(PROBABILITIES))]
        self._left = 1 + schedule.choices.one_of(MAX_FAULTS)
        self._last_at = 0
        self._stopped = False
        self.counts: dict[str, int] = Counter()
        self._kinds: dict[str, Callable[[SimulatedThread], None]] = {
            "kill": self._kill,
            "kill another": self._kill_another,
            "crash": self._crash,
            "freeze": self._freeze,
            "freeze another": self._freeze_another,
            "cut off": self._cut_off,
            "wrong clock": self._set_wrong_clock,
            "stop": self._stop,
            "start": self._start,
            "add steps": self._add_steps,
            "edit step": self._edit_step,
            "remove step": self._remove_step,
            "redo": self._redo,
            "deliver again": self._deliver_again,
            "cancel": self._cancel,
            "withdraw": self._withdraw,
            "pause": self._pause,
            "resume": self._resume,
            "rewind": self._rewind,
            "redrive": self._redrive,
            "prioritise": self._prioritise,
            "change": self._change,
            "submit": self._submit,
            "outage": self._outage,
        }
        self._names = [*self._kinds, *FREQUENT]

    @property
    def chance(self) -> float:
        """The probability of a fault now."""
        if self._stopped:
            return 0.0
        return IDLE_PROBABILITY if self._schedule.invariants.all_settled else self._chance

    def inject(self, thread: SimulatedThread, where: str) -> None:
        """Inject a fault into the thread at this point, or into another process."""
        if self._stopped:
            return
        self._inject(self._names[self._choices.one_of(len(self._names))], thread, f"{where} a transaction")

    def inject_in_commit(self, thread: SimulatedThread, where: str) -> None:
        """Kill the process of this thread, or cut its connection."""
        if not self._stopped:
            self._inject(COMMIT_FAULTS[self._choices.one_of(len(COMMIT_FAULTS))], thread, f"{where} a commit")

    def _inject(self, kind: str, thread: SimulatedThread, where: str) -> None:
        self._left -= 1
        self._stopped = self._left <= 0
        self._last_at = self._schedule.machine.turns
        self.counts[kind] += 1
        self._schedule.log(f"{where}: {kind}")
        self._kinds[kind](thread)

    @property
    def is_over(self) -> bool:
        """True if all faults were injected some turns ago, or can have no more consequences."""
        return self._stopped and (
            self._schedule.invariants.all_settled
            or self._schedule.machine.turns > self._last_at + TURNS_AFTER_LAST_FAULT
        )

    def stop(self) -> None:
        """Inject no more faults."""
        self._stopped = True

    # machines

    def _kill(self, thread: SimulatedThread) -> None:
        self._schedule.machine.kill(thread.process)

    def _crash(self, thread: SimulatedThread) -> None:
        """Kill a process by a fault in its own code, which leaves evidence."""
        self._schedule.machine.kill(thread.process, is_crash=True)

    def _kill_another(self, thread: SimulatedThread) -> None:
        if (other := self._another(thread)) is not None:
            self._schedule.log(f"the process is {other}")
            self._schedule.machine.kill(other)

    def _freeze(self, thread: SimulatedThread) -> None:
        leases = FREEZE_LEASES[self._choices.one_of(len(FREEZE_LEASES))]
        thread.process.frozen_until = self._schedule.machine.now + leases * LEASE.total_seconds()

    def _freeze_another(self, thread: SimulatedThread) -> None:
        if (other := self._another(thread)) is not None:
            leases = FREEZE_LEASES[self._choices.one_of(len(FREEZE_LEASES))]
            other.frozen_until = self._schedule.machine.now + leases * LEASE.total_seconds()

    def _another(self, thread: SimulatedThread) -> SimulatedProcess | None:
        machine = self._schedule.machine
        others = [
            process for process in machine.processes if process is not thread.process and machine.is_running(process)
        ]
        return others[self._choices.one_of(len(others))] if others else None

    def _cut_off(self, _: SimulatedThread) -> None:
        raise StoreGone("the connection is gone")

    def _set_wrong_clock(self, thread: SimulatedThread) -> None:
        self._schedule.invariants.uncertainty.clocks = True
        thread.process.skew = SKEWS[self._choices.one_of(len(SKEWS))]

    def _stop(self, thread: SimulatedThread) -> None:
        self._schedule.budgets[thread.process].stop("SIGTERM")

    def _start(self, _: SimulatedThread) -> None:
        self._schedule.start_worker()

    def _deliver_again(self, _: SimulatedThread) -> None:
        """Run an earlier call a second time. Its caller does not get the answer."""
        calls = [call for call in self._schedule.store.watch.delivered if call.verb not in ("heartbeat", "wake")]
        if not calls:
            return
        call = calls[-1 - self._choices.one_of(min(REDELIVERABLE, len(calls)))]
        self._schedule.log(f"the call is {call.verb} by {call.process}")
        self._schedule.invariants.uncertainty.assignments |= call.verb in (*CLAIM_VERBS, *MOVE_VERBS, "rewind")
        machine = self._schedule.machine
        before, machine.current = machine.current, None
        try:
            self._schedule.store.watch.run_call(call)
        except (HoldfastError, IntegrityError, Killed) as error:
            self._schedule.log(f"{type(error).__name__}: {error}")
        finally:
            machine.current = before

    def _outage(self, _: SimulatedThread) -> None:
        """Let the service be away for a while."""
        machine, bodies = self._schedule.machine, self._schedule.bodies
        until = machine.now + OUTAGE_SECONDS[self._choices.one_of(len(OUTAGE_SECONDS))]
        bodies.outages += not bodies.is_away()
        bodies.is_away = lambda: machine.now < until

    # people

    def _numbers(self) -> list[int]:
        """Choose the document that a person decides about, or all."""
        numbers = [document.id for document in self._schedule.invariants.documents]
        chosen = self._choices.one_of(len(numbers) + 1)
        return numbers if chosen == len(numbers) else [numbers[chosen]]

    def _cancel(self, _: SimulatedThread) -> None:
        numbers = self._numbers()
        with self._schedule.as_operator():
            self._schedule.store.cancel(numbers, who="operator", reason="no longer needed")

    def _withdraw(self, _: SimulatedThread) -> None:
        numbers = self._numbers()
        pipeline = pipeline_of(self._schedule.pipeline_version)
        with self._schedule.as_operator():
            Withdrawal(pipeline, self._schedule.store, who="operator", reason="taken back").withdraw(numbers)

    def _pause(self, _: SimulatedThread) -> None:
        numbers, seconds = self._numbers(), HOLD_SECONDS[self._choices.one_of(len(HOLD_SECONDS))]
        with self._schedule.as_operator():
            until = self._schedule.machine.clock() + timedelta(seconds=seconds) if seconds else None
            self._schedule.store.pause(numbers, who="operator", reason="wait a moment", until=until)

    def _resume(self, _: SimulatedThread) -> None:
        numbers = self._numbers()
        with self._schedule.as_operator():
            self._schedule.store.resume(self._schedule.plan, numbers, who="operator", reason="go on")

    def _redrive(self, _: SimulatedThread) -> None:
        numbers = self._numbers()
        with self._schedule.as_operator():
            self._schedule.store.redrive(numbers, who="operator", reason="once more")

    def _rewind(self, _: SimulatedThread) -> None:
        numbers, steps = self._numbers(), self._schedule.steps
        to = steps[self._choices.one_of(len(steps))]
        with self._schedule.as_operator():
            self._schedule.store.rewind_to(self._schedule.plan, numbers, to=to, who="operator", reason="do it again")

    def _prioritise(self, _: SimulatedThread) -> None:
        numbers, priority = self._numbers(), self._choices.one_of(3)
        with self._schedule.as_operator():
            self._schedule.store.prioritise(numbers, priority=priority, who="operator", reason="first")

    def _change(self, _: SimulatedThread) -> None:
        keys = sorted(self._schedule.versions)
        self._schedule.submit(keys[self._choices.one_of(len(keys))])

    def _submit(self, _: SimulatedThread) -> None:
        self._schedule.submit(f"doc{len(self._schedule.versions)}")

    def _add_steps(self, _: SimulatedThread) -> None:
        """Deploy a version with more steps. Workers that start from now on have it."""
        more = ADDITIONS[self._choices.one_of(len(ADDITIONS))]
        now = self._schedule.pipeline_version
        self._deploy(now.with_steps({step: 1 for step in more if step not in now.steps}))

    def _edit_step(self, _: SimulatedThread) -> None:
        """Deploy a version with one step changed."""
        now = self._schedule.pipeline_version
        bodies = [step for step in now.steps if step not in GATES]
        edited = bodies[self._choices.one_of(len(bodies))]
        self._schedule.log(f"the step is {edited}")
        self._deploy(now.with_steps({edited: now.revision(edited) + 1}))

    def _remove_step(self, _: SimulatedThread) -> None:
        """Deploy a version without a step. Running workers may still bring documents to it."""
        removable = [step for step in self._schedule.steps if step in REMOVABLE]
        if removable:
            removed = removable[self._choices.one_of(len(removable))]
            self._schedule.log(f"the step is {removed}")
            self._deploy(self._schedule.pipeline_version.without(removed))

    def _deploy(self, pipeline_version: PipelineVersion) -> None:
        try:
            self._schedule.deploy(pipeline_version)
        except HoldfastError as error:
            self._schedule.log(f"{error}")

    def _redo(self, _: SimulatedThread) -> None:
        self._schedule.redo()
