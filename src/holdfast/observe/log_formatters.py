"""Formats of log records: text for people, and JSON with the fields of an event for programs."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

import msgspec

from holdfast.core.formatting import escape_control_chars, printable
from holdfast.core.text_limits import MAX_LOG, MAX_TRACEBACK, shorten

FIELDS = "holdfast"
"""The attribute of a log record that contains its fields."""


class TextFormatter(logging.Formatter):
    """Format a record as text without control characters, whatever bodies log: a terminal would obey them.

    A long record is cut, and says so.

    Args:
        pattern: The format, as for logging.Formatter.
        labels: Identifiers of this run. They end the first line.
    """

    def __init__(self, pattern: str | None = None, *, labels: Mapping[str, Any] | None = None) -> None:
        super().__init__(pattern)
        self._end = "".join(f" {name}={value}" for name, value in (labels or {}).items())

    def formatMessage(self, record: logging.LogRecord) -> str:  # noqa: N802 - the name of the method in logging
        return super().formatMessage(record) + self._end

    def format(self, record: logging.LogRecord) -> str:
        text = shorten(super().format(record), MAX_LOG)
        return "\n".join(printable(line) for line in text.split("\n"))


class JsonFormatter(logging.Formatter):
    """Format a record as one line of JSON: time, level and message, and the fields of an event of the engine.

    Records of other loggers get the field `logger`, and `error` and `traceback` if they have an exception.

    Args:
        labels: Identifiers of this run, for the field `labels` of every record.
    """

    def __init__(self, *, labels: Mapping[str, Any] | None = None) -> None:
        super().__init__()
        self._labels = {"labels": {**labels}} if labels else {}

    def format(self, record: logging.LogRecord) -> str:
        line: dict[str, Any] = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
        }
        fields = getattr(record, FIELDS, None)
        if isinstance(fields, Mapping):
            line |= fields
        else:
            line |= {"event": "log", "logger": record.name} | _exception(self, record)
        return _encode(line | self._labels | {"message": shorten(record.getMessage(), MAX_LOG)})


def _exception(formatter: logging.Formatter, record: logging.LogRecord) -> dict[str, str]:
    if not record.exc_info or record.exc_info[0] is None:
        return {}
    trace = shorten(formatter.formatException(record.exc_info), MAX_TRACEBACK)
    return {"error": record.exc_info[0].__name__, "traceback": trace}


def _encode(line: dict[str, Any]) -> str:
    try:
        return escape_control_chars(msgspec.json.encode(line, enc_hook=str).decode())
    except (UnicodeEncodeError, TypeError, ValueError):  # for example a lone surrogate in the name of a file
        import json

        return json.dumps(line, default=str)
