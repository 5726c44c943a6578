"""Options of the scan that a worker does from time to time."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import click

from holdfast.cli.options import option_group
from holdfast.cli.param_types import DurationType, format_duration_arg
from holdfast.ops.cleanup import DEFAULT_STALE
from holdfast.ops.maintenance_scan import ACTIONS, DEFAULT_ACTION, DEFAULT_EVERY, MaintenanceScan

NAMES = ("no_scan", "scan_every", "scan_stale", "scan_then")

scan_options = option_group(
    click.option(
        "--scan-every",
        type=DurationType(),
        default=format_duration_arg(DEFAULT_EVERY),
        show_default=True,
        help="How often the workers together scan the pipeline.",
    ),
    click.option(
        "--scan-stale",
        type=DurationType(),
        default=format_duration_arg(DEFAULT_STALE),
        show_default=True,
        help="After how long without a move a scan reports a batch or a dead letter.",
    ),
    click.option(
        "--scan-then",
        type=click.Choice(ACTIONS),
        default=DEFAULT_ACTION,
        show_default=True,
        help="Only list; or also clean up, as `holdfast batch cleanup` does; or before that end stale batches: cancel "
        "what is open, seal them, and close those that need no person for it.",
    ),
    click.option("--no-scan", is_flag=True, help="Do not scan."),
)


def split_scan_options(options: dict[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """Split the options of a command into those of this module and the others."""
    scan = {name: options[name] for name in NAMES}
    return scan, {name: value for name, value in options.items() if name not in NAMES}


def maintenance_scan(options: Mapping[str, Any]) -> MaintenanceScan | None:
    """Return the scan that the options ask for."""
    if options["no_scan"]:
        return None
    return MaintenanceScan(every=options["scan_every"], stale=options["scan_stale"], then=options["scan_then"])


def scan_args(options: Mapping[str, Any]) -> list[str]:
    """Return the same options as arguments for another process."""
    if options["no_scan"]:
        return ["--no-scan"]
    spans = [("--scan-every", options["scan_every"]), ("--scan-stale", options["scan_stale"])]
    args = [word for name, span in spans for word in (name, f"{span.total_seconds()}s")]
    return [*args, "--scan-then", options["scan_then"]]
