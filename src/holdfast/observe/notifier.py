"""The notifier: a listener that sends notifications in the background and never stops a worker."""

from __future__ import annotations

import logging
import threading
from collections.abc import Collection, Mapping, Sequence
from datetime import UTC, datetime
from types import TracebackType
from typing import Any, Self
from uuid import uuid4

import msgspec

from holdfast.core.errors import HoldfastError
from holdfast.observe.events import Event
from holdfast.observe.notification_targets import DeliveryFailed, NotificationTarget, open_target
from holdfast.observe.notifications import KINDS, Notification, notifications_of

log = logging.getLogger("holdfast")

GATHER_SECONDS = 1.0
"""How long notifications of one kind are collected before they are sent as one."""
RETRY_SECONDS = (1.0, 5.0, 25.0)
"""How long to wait before each further try. Then the notification is given up."""
CLOSE_SECONDS = 5.0
"""How long `close` waits for notifications that are not sent yet."""


class Notifier:
    """Send a notification when a document becomes a dead letter, is paused, and so on.

    Calling it with an event only adds to a list; a thread of its own sends. It is best effort: a target that does not
    answer is tried a few times, then a warning is logged. What must not be missed is in the store.

    Which thread may use which field: `_pending`, `_thread` and `_closed` are used under `_condition` by any thread. The
    others are set once.

    Args:
        *targets: Where to send: `https://...`, or `command:` and a command. Or objects with a method `send`.
        kinds: The kinds of notifications to send. All by default.
        labels: Identifiers of this run, for the field `labels`.

    Raises:
        HoldfastError: A target cannot be used, or a kind is unknown.

    Example:
        with Notifier("https://hooks.example.org/holdfast") as notify:
            holdfast.work(papers, store, listeners=[notify])
    """

    def __init__(
        self,
        *targets: str | NotificationTarget,
        kinds: Collection[str] = KINDS,
        labels: Mapping[str, Any] | None = None,
    ) -> None:
        self._targets = [open_target(target) if isinstance(target, str) else target for target in targets]
        if unknown := {*kinds} - {*KINDS}:
            raise HoldfastError(f"there are no notifications {sorted(unknown)}; there are: {', '.join(KINDS)}")
        self._kinds = frozenset(kinds)
        self._labels = dict(labels or {})
        self._condition = threading.Condition()
        self._pending: dict[tuple[Any, ...], Notification] = {}
        self._thread: threading.Thread | None = None
        self._closed = threading.Event()

    def __call__(self, event: Event) -> None:
        """Remember what there is to send about an event. It never raises, and it waits for nothing."""
        try:
            found = [one for one in notifications_of(event) if one.event in self._kinds]
        except Exception:  # an error of a listener would stop the worker
            log.warning("an event could not be made into a notification", exc_info=True)
            return
        if found:
            self._add(found)

    def _add(self, found: Sequence[Notification]) -> None:
        with self._condition:
            for one in found:
                before = self._pending.get(one.group)
                self._pending[one.group] = one if before is None else before.merged(one)
            if self._thread is None:  # only now: a process that forks at its start has no thread yet
                self._thread = threading.Thread(target=self._run, name="holdfast-notify", daemon=True)
                self._thread.start()
            self._condition.notify()

    def close(self) -> None:
        """Send what is left, for a few seconds at most. Then give up the rest."""
        self._closed.set()
        with self._condition:
            self._condition.notify()
            thread = self._thread
        if thread is not None:
            thread.join(CLOSE_SECONDS)
            if thread.is_alive():
                log.warning("notifications were not sent: %s did not answer in time", self._names())

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    # the thread

    def _run(self) -> None:
        while True:
            with self._condition:
                while not self._pending and not self._closed.is_set():
                    self._condition.wait()
                if not self._pending:
                    return
            self._closed.wait(GATHER_SECONDS)
            with self._condition:
                pending, self._pending = self._pending, {}
            for notification in pending.values():
                body = self._encode(notification)
                for target in self._targets:
                    self._deliver(target, body, notification)

    def _deliver(self, target: NotificationTarget, body: bytes, notification: Notification) -> None:
        """Try to deliver a notification a few times, or once if the worker ends."""
        for delay in (*RETRY_SECONDS, None):
            try:
                target.send(body)
            except DeliveryFailed as error:
                failure: Exception = error
                if delay is None or not error.may_succeed or self._closed.wait(delay):
                    break
            except Exception as error:  # noqa: BLE001 - a target may be user code; the thread must go on
                failure = error
                break
            else:
                return
        log.warning("a notification (%s) was not sent to %s: %s", notification.event, target.name, failure)

    def _encode(self, notification: Notification) -> bytes:
        return encode_notification(notification, labels=self._labels)

    def _names(self) -> str:
        return ", ".join(target.name for target in self._targets)


def encode_notification(notification: Notification, *, labels: Mapping[str, Any] | None = None) -> bytes:
    """Return the JSON of a notification.

    Args:
        notification: The notification.
        labels: Identifiers of this run.

    Returns:
        One JSON object, in UTF-8.
    """
    fields = {
        "id": uuid4().hex,
        "time": datetime.now(UTC).isoformat(timespec="milliseconds"),
        "event": notification.event,
        "level": notification.level,
        "text": notification.text,
        "pipeline": notification.pipeline,
        "worker": notification.worker,
        **notification.details,
        "count": notification.count,
        "documents": notification.documents,
        "labels": labels or {},
    }
    return msgspec.json.encode(fields, enc_hook=str)
