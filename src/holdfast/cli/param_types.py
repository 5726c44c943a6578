"""Parameter types of the command line: durations, rates, shares, samples and addresses."""

from __future__ import annotations

import re
from datetime import timedelta
from typing import Any

import click

UNITS = {"ms": 0.001, "s": 1, "m": 60, "min": 60, "h": 3600, "d": 86400}
"""Seconds in each unit of time."""
MAX_DURATION = timedelta(days=36525)
LOOPBACK = "127.0.0.1"
METRICS_PORT = 9464

_DURATION_PART = re.compile(r"(\d+(?:\.\d+)?)(ms|s|min|m|h|d)?")
_RATE = re.compile(r"(\d+(?:\.\d+)?)/(s|min|m|h)")
_SHARE = re.compile(r"(\d+(?:\.\d+)?)(%?)")

Address = tuple[str, int]
"""A host and a port."""


class DurationType(click.ParamType):  # type: ignore[type-arg]  # generic since click 8.2 only
    """A duration: 90, 30s, 15m, 1h30m."""

    name = "duration"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> timedelta:
        if isinstance(value, timedelta):
            return value
        text = str(value).replace(" ", "").lower()
        parts = _DURATION_PART.findall(text)
        if not parts or "".join(number + unit for number, unit in parts) != text:
            self.fail(f"{value!r} is not a duration; write 30s, 15m or 1h30m", param, ctx)
        seconds = sum(float(number) * UNITS[unit or "s"] for number, unit in parts)
        if seconds > MAX_DURATION.total_seconds():
            self.fail(f"{value!r} is longer than 100 years", param, ctx)
        duration = timedelta(seconds=seconds)
        if duration <= timedelta(0):
            self.fail("the duration must be longer than 0", param, ctx)
        return duration


class MoneyOrDurationType(DurationType):
    """An amount of money, such as 5.00, or a duration with its unit, such as 15m."""

    name = "amount or duration"

    def convert(  # type: ignore[override]  # click declares no type
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> timedelta | float:
        if isinstance(value, float) or re.fullmatch(r"\d+(\.\d+)?", str(value).strip()):
            return float(value)
        return super().convert(value, param, ctx)


class RateType(click.ParamType):  # type: ignore[type-arg]
    """A rate: 50/s, 10/min. The value is the time between two."""

    name = "rate"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> timedelta:
        if isinstance(value, timedelta):
            return value
        match = _RATE.fullmatch(str(value).replace(" ", ""))
        if not match or not float(match[1]):
            self.fail(f"{value!r} is not a rate; write 50/s or 10/min", param, ctx)
        return timedelta(seconds=UNITS[match[2]] / float(match[1]))


class ShareType(click.ParamType):  # type: ignore[type-arg]
    """A share between 0 and 1: 5%, 0.05."""

    name = "share"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        if isinstance(value, float):
            return value
        match = _SHARE.fullmatch(str(value).strip())
        share = float(match[1]) / (100 if match[2] else 1) if match else -1.0
        if not 0 <= share <= 1:
            self.fail(f"{value!r} is not a share; write 5% or 0.05", param, ctx)
        return share


class SampleType(click.ParamType):  # type: ignore[type-arg]
    """A number of documents, or a share of them: 100, 5%."""

    name = "N|5%"

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> float:
        text = str(value).strip()
        try:
            sample = float(text.removesuffix("%")) / 100 if text.endswith("%") else int(text)
        except ValueError:
            self.fail(f"{value!r} is not a sample; write a number of documents, 100, or a share, 5%", param, ctx)
        if not sample > 0 or (isinstance(sample, float) and sample > 1):
            self.fail("a sample is at least 1 document, or more than 0% and at most 100%", param, ctx)
        return sample


class AddressType(click.ParamType):  # type: ignore[type-arg]
    """An address to listen on: :9464, 0.0.0.0:9464, [::1]:9464."""

    name = "address"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Address:
        if isinstance(value, tuple):
            return value
        host, colon, port = str(value).rpartition(":")
        if not colon or not port.isdecimal() or int(port) > 65535:
            example = f":{METRICS_PORT}, or 0.0.0.0:{METRICS_PORT} to let other machines connect"
            self.fail(f"{value!r} is not an address; write {example}", param, ctx)
        return host.strip("[]") or LOOPBACK, int(port)


def format_duration_arg(duration: timedelta) -> str:
    """Return a duration as a person would write it on the command line: 30s, 2h, 30d."""
    seconds = duration.total_seconds()
    unit = next((unit for unit in ("d", "h", "m") if seconds % UNITS[unit] == 0), "s")
    return f"{seconds / UNITS[unit]:g}{unit}"


def host_in_url(host: str) -> str:
    """Return a host as it is written in a URL: an IPv6 address in brackets."""
    return f"[{host}]" if ":" in host else host
