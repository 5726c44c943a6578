"""The statements of the index in SQLite, by the names of their files."""

from __future__ import annotations

from pathlib import Path

from holdfast.stores.queries import load

SQL = load(Path(__file__).parent / "queries")
