"""No command shows the password of a store: not for a wrong URL, and not in its output, logs, files or processes."""

from __future__ import annotations

from pathlib import Path

import pytest

import holdfast as library
from holdfast.core.errors import StoreError
from tests.cli.conftest import Run, Start
from tests.support.polling import wait_for

SECRET = "hunter"

WRONG = [
    f"mysql://me:{SECRET}@db/papers",
    f"postgres+x://me:{SECRET}@db/papers",
    f"host=127.0.0.1 password={SECRET} dbname=x",
    f"password='{SECRET}'",
    SECRET,
    f"me:{SECRET}@db/papers",
    f"//me:{SECRET}@db/papers",
    f"sqlite://me:{SECRET}@db/papers.db",
    f"sqlite:///x.db?password={SECRET}",
    f"memory://me:{SECRET}@x",
    f"postgresql://me:{SECRET}@[::1/x",
    f"postgresql://me:{SECRET}%zz@db/x",
    f"postgresql://me:{SECRET}@127.0.0.1:1/x",
    f"postgresql://127.0.0.1:1/x?user=me&password={SECRET}",
    f"postgresql://127.0.0.1:1/x?passwrd={SECRET}",
    f"postgresql://me:{SECRET}@127.0.0.1:notaport/x",
]
COMMANDS = [("status",), ("store", "migrate"), ("run", "papers.py", "docs"), ("show", "k"), ("search", "word")]


@pytest.mark.parametrize("url", WRONG)
def test_a_wrong_url_is_refused_without_its_password(holdfast: Run, url: str) -> None:
    for command in COMMANDS:
        if url.startswith("memory:") and command[0] in ("run",):
            continue
        for args in ((*command, "--store", url, "--debug"), (*command, "--store", url, "--json")):
            result = holdfast(*args)
            assert SECRET not in result.output, args
            assert result.exception is None or isinstance(result.exception, SystemExit), args


@pytest.mark.parametrize("url", WRONG)
def test_no_error_in_python_has_the_password(url: str) -> None:
    try:
        with library.open(url) as store:
            assert SECRET not in store.url
    except StoreError as error:
        chain: BaseException | None = error
        while chain is not None:
            assert SECRET not in f"{chain} {chain!r}"
            chain = chain.__cause__ or (None if chain.__suppress_context__ else chain.__context__)


def test_an_argument_in_the_wrong_place_is_shown_without_its_password(holdfast: Run) -> None:
    for args in (
        ("status", f"postgresql://me:{SECRET}@db/x"),
        (f"postgresql://me:{SECRET}@db/x",),
        ("show", "k", f"--stor=postgresql://me:{SECRET}@db/x"),
    ):
        result = holdfast(*args)
        assert result.exit_code in (2, 3)
        assert SECRET not in result.output


def _with_password(url: str) -> str:
    """Return a URL of the same database with a password, which a server that trusts local users ignores."""
    user_and_rest = url.removeprefix("postgresql://")
    user, at, rest = user_and_rest.rpartition("@")
    return (
        f"postgresql://{user or 'postgres'}:{SECRET}@{rest}"
        if at
        else f"{url}{'&' if '?' in url else '?'}password={SECRET}"
    )


def test_no_output_log_or_file_has_the_password(holdfast: Run, folder: Path, postgres_url: str) -> None:
    url = _with_password(postgres_url)
    said = ""
    for command in (
        ("run", "papers.py", "docs", "--log", "json"),
        ("run", "papers.py", "docs", "--json"),
        ("status", "--json"),
        ("status",),
        ("show", "docs/a.txt", "--json"),
        ("explain", "docs/a.txt"),
        ("show", "nothing"),
        ("status", "--pipeline", "nothing"),
        ("doc", "pack", "docs/a.txt", "-o", "a.capsule"),
        ("batch", "reconcile", "papers", "default", "--report", "report.json"),
        ("batch", "reconcile", "papers", "default", "--report", "report.html"),
        ("store", "migrate"),
    ):
        said += holdfast(*command, "--store", url).output
    assert "docs/a.txt" in said
    assert SECRET not in said
    for file in ("a.capsule", "report.json", "report.html"):
        assert SECRET.encode() not in (folder / file).read_bytes()
    with library.open(url) as store:
        assert SECRET not in store.url
        assert SECRET not in repr(store)


@pytest.mark.skipif(not Path("/proc/self/cmdline").exists(), reason="this system does not show command lines")
def test_worker_processes_have_no_password_in_their_command_lines(
    start: Start, postgres_url: str, holdfast: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    holdfast("submit", "papers.py", "docs", "--store", postgres_url)
    monkeypatch.setenv("HOLDFAST_STORE", _with_password(postgres_url))
    process = start("work", "papers.py", "--processes", "2")
    try:
        wait_for(lambda: len(_children(process.pid)) >= 2)
        lines = [Path(f"/proc/{child}/cmdline").read_bytes() for child in _children(process.pid)]
        assert any(b"--supervised" in line for line in lines)
        assert all(SECRET.encode() not in line for line in lines)
    finally:
        process.terminate()
        process.communicate(timeout=60)


def _children(pid: int) -> list[int]:
    return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
