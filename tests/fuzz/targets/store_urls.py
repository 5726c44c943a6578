"""URLs of stores, as programs and people give them."""

from __future__ import annotations

import os
from contextlib import chdir
from typing import Any

from click.testing import CliRunner
from hypothesis import strategies as st

from holdfast.cli.app import app
from holdfast.core.passwords import hide_password
from holdfast.stores import database_file, files_of, is_fresh, migrate_store, open_store
from tests.fuzz.inputs import scratch_folder, texts
from tests.fuzz.target import takes

BITS = (
    "sqlite",
    "memory",
    "postgresql",
    "postgres",
    "SQLITE",
    ":",
    ":///",
    "://",
    "/",
    "a.db",
    "b",
    "?",
    "synchronous=normal",
)
ODD = (
    "%00",
    "%2e",
    "%",
    "..",
    "\0",
    "\ud800",
    "#",
    "[",
    "]",
    "@",
    " ",
    "\n",
    "é",
    "mode=ro",
    "&",
    "=",
    "~",
    "a" * 300,
    "\\",
)
REST = st.lists(st.sampled_from((*BITS, *ODD)), max_size=5).map("".join)
HERE = st.sampled_from(("sqlite:///", "sqlite:", "sqlite://", "sqlite:///./", "memory:", "memory://", "", "x:"))
URL = st.tuples(HERE, REST | texts).map("".join)
SERVER = st.tuples(
    st.sampled_from(
        ("postgresql://127.0.0.1:1/", "postgres://u:p@127.0.0.1:1/x?", "postgresql:///?host=127.0.0.1&port=1&")
    ),
    REST,
).map("".join)


def _is_safe(url: str) -> bool:
    """Return True if a URL stays in the scratch folder, so that no file is made elsewhere."""
    path = database_file(url)
    if path is None:
        return not url.startswith("sqlite:/") or "/" not in url.removeprefix("sqlite:").strip("/")
    return not path.is_absolute() and ".." not in path.parts


@takes(URL, "A URL opens a store in a file of that name, or StoreError says what is wrong with it.")
def stores(url: str) -> None:
    if not _is_safe(url):
        return
    with _in_scratch_folder():
        try:
            files_of(url)
            is_fresh(url)
            open_store(url).close()
            path = database_file(url)
            assert path is None or path.exists(), f"the database was not created at {path}"
            if not url.startswith("memory"):
                migrate_store(url)
        finally:
            _delete_files()


@takes(SERVER, "A URL of a server that does not run is refused at once, and the message has no password.")
def servers(url: str) -> None:
    assert ":p@" not in hide_password(url)
    open_store(url + ("&" if "?" in url else "?") + "connect_timeout=1").close()


COMMANDS = st.sampled_from((("status",), ("show", "k"), ("store", "migrate"), ("dead", "list"), ("doc", "pack", "k")))


@takes(st.tuples(URL, COMMANDS, st.booleans()), "The command line opens a URL, or ends with 2 or 3 and a message.")
def commands(given: tuple[str, tuple[str, ...], bool]) -> None:
    url, command, by_environment = given
    if not _is_safe(url) or (by_environment and not fits_environment(url)):
        return
    environment: dict[str, Any] = {"HOLDFAST_STORE": url} if by_environment else {"HOLDFAST_STORE": None}
    named = [] if by_environment else ["--store", url]
    with _in_scratch_folder():
        try:
            check_exit(CliRunner(env=environment).invoke(app, [*command, *named], prog_name="holdfast"))
        finally:
            _delete_files()


def fits_environment(text: str) -> bool:
    """Return True if an environment variable can have this value."""
    try:
        return "\0" not in os.fsencode(text).decode("latin-1")
    except UnicodeEncodeError:
        return False


def check_exit(result: Any) -> None:
    """Raise an error that a command did not handle. Check that a failed command printed a message."""
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    assert result.exit_code in (0, 1, 2, 3), result.exit_code
    assert result.exit_code == 0 or result.output.strip()
    assert "Traceback" not in result.output


def _in_scratch_folder() -> chdir[str]:
    folder = scratch_folder() / "urls"
    folder.mkdir(exist_ok=True)
    return chdir(str(folder))


def _delete_files() -> None:
    """Delete everything in the current folder."""
    import shutil

    for entry in os.scandir("."):
        if entry.is_dir(follow_symlinks=False):
            shutil.rmtree(entry.path, ignore_errors=True)
        else:
            os.remove(entry.path)  # noqa: PTH107
