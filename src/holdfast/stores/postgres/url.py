"""Read the URL of a PostgreSQL store: in the form of libpq or of SQLAlchemy, with the schema of our tables.

`?schema=name` names the schema in which the tables of holdfast are. libpq does not know it, so it is taken out. A URL
of SQLAlchemy also names the driver (`postgresql+psycopg://`), which is taken out too: holdfast always uses psycopg.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import NamedTuple
from urllib.parse import unquote

from holdfast.core.errors import StoreError
from holdfast.stores.sql.query_files import OPAQUE

_DRIVER = re.compile(r"^(postgres(?:ql)?)\+\w+:")
_SCHEMA = re.compile(r"([?&])schema=([^&]*)(&|$)")
_NAME = re.compile(r"[^\W\d]\w*")
_HIDDEN = re.compile(r"^[^/]+//[^/@]*:(?:\*\*\*|%2A%2A%2A)@")
_UNESCAPED = re.compile(r"^[^/?]+//[^/?@:]*:(?!\d{1,5}(?:/[^@]*)?(?:\?|$))[^?]*[/@][^?]*@")
"""A password with @ or /. libpq ends it there, and takes the rest for the host or the database, which are shown."""
_TABLE = re.compile(rf"{OPAQUE}|(?<![\w.\"])(?P<table>hf_[a-z_]+)\b")

MAX_NAME_BYTES = 63
"""PostgreSQL cuts longer names, so two schemas could be one."""


class PostgresUrl(NamedTuple):
    """What a URL says: how psycopg connects, and the schema of our tables; empty if it names none."""

    conninfo: str
    schema: str


def parse_url(url: str) -> PostgresUrl:
    """Return what a URL says. Raise StoreError for a password that is not escaped, or a schema that cannot be one."""
    if _HIDDEN.match(url):
        raise StoreError(
            "the password of this URL is ***: a URL of SQLAlchemy hides it when it becomes a text. Write "
            "engine.url.render_as_string(hide_password=False)"
        )
    if _UNESCAPED.match(url):
        raise StoreError(
            "this URL of a PostgreSQL database has an @ or a / too many. Write %40 for @ and %2F for / in the password "
            "and in the name of the database"
        )
    url = _DRIVER.sub(r"\1:", url)
    credentials, at, rest = url.rpartition("@")  # a password may look like an option
    found = _SCHEMA.search(rest)
    if found is None:
        return PostgresUrl(url, "")
    schema = unquote(found[2])
    if not _NAME.fullmatch(schema) or len(schema.encode()) > MAX_NAME_BYTES or schema.startswith("pg_"):
        raise StoreError(
            f"schema={schema!r} cannot be the schema of a store: use letters, digits and _, {MAX_NAME_BYTES} bytes at "
            "most, and do not begin with pg_"
        )
    before = found[1] if found[3] else ""
    without = rest[: found.start()] + before + rest[found.end() :]
    return PostgresUrl(f"{credentials}{at}{without}", schema)


def quoted(schema: str) -> str:
    """Return a schema as SQL writes it. Without quotes, PostgreSQL would write its name in lower case."""
    return '"' + schema.replace('"', '""') + '"'


@lru_cache(4096)
def in_schema(statement: str, schema: str) -> str:
    """Return a statement of ours with its tables in a schema. Without a schema, the search path finds them."""
    if not schema:
        return statement
    return _TABLE.sub(lambda match: match["opaque"] or f"{quoted(schema)}.{match['table']}", statement)
