"""The audit finds what it is there to find."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

pytest.importorskip("packaging")

from tests.audit.__main__ import ROOT
from tests.audit.dependencies import undeclared, unlocked
from tests.audit.licences import ALLOWED, NEVER, closure, unlicensed
from tests.audit.secrets import secrets_in_files, secrets_in_history

# Each is put together here, so that it stands in no file.
PLANTED = {
    "a key of AWS": "AKIA" + "Q" * 16,
    "a token of GitHub": "ghp" + "_" + "a1B2" * 9,
    "a key of OpenAI or Anthropic": "sk" + "-proj-" + "a1B2" * 10,
    "a private key": "-----BEGIN RSA " + "PRIVATE KEY-----",
    "a password in a URL": "postgresql://me:" + "hunter22" + "@db.example.org/x",
    "a password or key": "api_" + 'key = "' + "9f8e7d6c5b4a39281706" + '"',
}


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    git(tmp_path, "init", "-q")
    return tmp_path


def git(folder: Path, *words: str) -> None:
    named = ("-c", "user.name=a", "-c", "user.email=a@example.org", "-c", "commit.gpgsign=false")
    subprocess.run(["git", "-C", str(folder), *named, *words], check=True)


@pytest.mark.parametrize("what", PLANTED)
def test_a_planted_secret_is_found_and_not_repeated(repository: Path, what: str) -> None:
    (repository / "settings.py").write_text(f"fine = 1\nvalue = {PLANTED[what]}\n")
    (found,) = secrets_in_files(repository)
    assert found.startswith(f"settings.py:2: {what}")
    assert PLANTED[what] not in found


def test_a_secret_that_was_taken_out_again_is_found_in_the_history(repository: Path) -> None:
    file = repository / "settings.py"
    for content in (PLANTED["a key of AWS"], "nothing"):
        file.write_text(content + "\n")
        git(repository, "add", ".")
        git(repository, "commit", "-qm", "a change")
    assert not [*secrets_in_files(repository)]
    (found,) = secrets_in_history(repository)
    assert "settings.py: a key of AWS" in found


def test_this_repository_has_no_secret_in_its_files() -> None:
    assert [*secrets_in_files(ROOT)] == []


def test_a_lock_without_a_hash_and_a_dependency_from_a_url_are_found(tmp_path: Path) -> None:
    (tmp_path / "pyproject.toml").write_text('[project]\ndependencies = ["a @ https://example.org/a.zip", "b"]\n')
    (tmp_path / "requirements.lock").write_text(
        "b==1 \\\n    --hash=sha256:00\nc==2\n    # via b\nhttps://example.org/d.zip\n"
    )
    assert [*unlocked(tmp_path)] == [
        "requirements.lock: c has no hash",
        "requirements.lock: https://example.org/d.zip is no name with a version",
        "pyproject.toml: a @ https://example.org/a.zip is from a URL",
    ]


def test_our_locks_are_whole() -> None:
    assert [*unlocked(ROOT)] == []


def test_what_we_import_is_what_we_declare() -> None:
    pytest.importorskip("deptry", reason="deptry is a dependency for developers")
    assert [*undeclared(ROOT)] == []


def test_an_import_that_is_not_declared_is_found(tmp_path: Path) -> None:
    pytest.importorskip("deptry", reason="deptry is a dependency for developers")
    (tmp_path / "src").mkdir()
    (tmp_path / "src" / "a.py").write_text("import msgspec\n")
    (tmp_path / "pyproject.toml").write_text('[project]\nname = "a"\nversion = "1"\ndependencies = ["click"]\n')
    found = "\n".join(undeclared(tmp_path))
    assert "DEP001 'msgspec'" in found or "DEP003 'msgspec'" in found
    assert "DEP002 'click'" in found


def test_licences_that_ask_for_more_are_not_allowed() -> None:
    for licence in ("GPL-3.0-or-later", "AGPL-3.0", "GNU General Public License v3", "Proprietary", "SSPL-1.0"):
        assert NEVER.search(licence) or not ALLOWED.search(licence)
    for licence in ("MIT", "BSD-3-Clause", "LGPL-3.0-only", "Apache Software License", "MPL-2.0 AND MIT"):
        assert ALLOWED.search(licence)
        assert not NEVER.search(licence)


def test_everything_that_runs_is_licensed() -> None:
    assert {"click", "msgspec", "rich", "pygments"} <= closure("holdfast")
    assert [*unlicensed(ROOT)] == []
