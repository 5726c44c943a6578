"""Parsers need their libraries. Without them these tests are not collected."""

from __future__ import annotations

from importlib.util import find_spec

collect_ignore_glob = [] if find_spec("pypdfium2") and find_spec("PIL") else ["test_file_type.py", "parsers/*"]
