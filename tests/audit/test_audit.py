"""The audit finds planted secrets, missing hashes, undeclared imports and forbidden licences."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

pytest.importorskip("packaging")

from holdfast.core.distribution import DISTRIBUTION
from tests.audit import __main__ as audit
from tests.audit.__main__ import ROOT
from tests.audit.dependencies import undeclared, unlocked
from tests.audit.licences import ALLOWED, NEVER, closure, unlicensed
from tests.audit.secrets import NotSearched, secrets_in_files, secrets_in_history, secrets_of

Search = Callable[[Path], Iterator[str]]

# Each secret is put together from parts, so that the audit does not find it in this file.
KEY_OF_AWS = "AKIA" + "Q" * 16
PLANTED = [
    ("a key of AWS", KEY_OF_AWS),
    ("a token of GitHub", "ghp" + "_" + "a1B2" * 9),
    ("a key of OpenAI or Anthropic", "sk" + "-proj-" + "a1B2" * 10),
    ("a key of Stripe", '"sk' + "_live_" + "51H8aZk93kdk2LLq0s9dk" + '"'),
    ("a private key", "-----BEGIN RSA " + "PRIVATE KEY-----"),
    ("a password in a URL", "postgresql://me:" + "hunter22" + "@db.example.org/x"),
    ("a password or key", "api_" + 'key = "' + "9f8e7d6c5b4a39281706" + '"'),
    ("a password or key", "PASSWORD" + "=" + "Zk93kdk2LLq0s9dkQQ81"),
    ("a password or key", "export DB_PASS" + "=" + "'" + "s3cr3t!pass" + "'"),
    ("a password or key", "aws_secret_access" + "_key = " + "wJalrXUtnFEMI/K7MDENG" + "/bPxRfiCYzEXAMPLEKEY"),
    ("a password or key", "  password" + ": " + '"p@ss!w0rd-' + 'of-today"'),
    ("a password or key", "  password" + ": " + "p@ss!w0rd-" + "of-today"),
    ("a password or key", "API_KEY" + "=" + "9f8e7d6c5b4a39281706"),
]
HARMLESS = [
    "token = Settings2.from_environment",
    "token=next_token_of(worker1, after=token0)",
    'password = os.environ["PASSWORD_OF_POSTGRES_15"]',
    "secret: Annotated[str, Meta(min_length=16)] | None",
    "PASSWORD=$PASSWORD_1 PGPASSWORD=${OTHER:-x1}",
    'GITHUB_TOKEN: "${{ secrets.GITHUB_TOKEN_2 }}"',
    'password: "{password1}"',
    "the token: sha256_of_the_last_page",
]


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    git(tmp_path, "init", "-q")
    return tmp_path


def git(folder: Path, *words: str) -> None:
    named = ("-c", "user.name=a", "-c", "user.email=a@example.org", "-c", "commit.gpgsign=false")
    subprocess.run(["git", "-C", str(folder), *named, *words], check=True)


@pytest.mark.parametrize(("what", "line"), PLANTED)
def test_a_planted_secret_is_found_and_not_repeated(repository: Path, what: str, line: str) -> None:
    (repository / "settings").write_text(f"fine = 1\n{line}\n")
    (found,) = secrets_in_files(repository)
    assert re.fullmatch(rf"settings:2: {what} \(mark [0-9a-f]{{16}}\)", found)


@pytest.mark.parametrize("line", HARMLESS)
def test_a_line_that_only_names_a_secret_is_not_reported(line: str) -> None:
    assert [*secrets_of(line.encode())] == []


@pytest.mark.parametrize("search", [secrets_in_files, secrets_in_history])
def test_a_search_without_a_repository_fails(tmp_path: Path, search: Search) -> None:
    with pytest.raises(NotSearched, match="not a git repository"):
        [*search(tmp_path)]


def test_an_audit_that_could_not_search_for_secrets_fails(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(audit, "CHECKS", {"no file contains a secret": secrets_in_files})
    monkeypatch.setattr(audit, "ROOT", tmp_path)
    assert audit.main() == 1
    assert "failed: no file contains a secret" in capsys.readouterr().out


def test_a_repository_without_a_commit_has_no_history(repository: Path) -> None:
    assert [*secrets_in_history(repository)] == []


def test_a_removed_secret_is_found_in_the_history(repository: Path) -> None:
    file = repository / "settings.py"
    for content in (KEY_OF_AWS, "nothing"):
        file.write_text(content + "\n")
        git(repository, "add", ".")
        git(repository, "commit", "-qm", "a change")
    assert not [*secrets_in_files(repository)]
    (found,) = secrets_in_history(repository)
    assert "settings.py: a key of AWS" in found


@pytest.mark.skipif(not (ROOT / ".git").exists(), reason="this is no repository")
def test_this_repository_has_no_secret_in_its_files() -> None:
    assert [*secrets_in_files(ROOT)] == []


def test_a_lock_without_a_hash_and_a_dependency_from_a_url_are_found(tmp_path: Path) -> None:
    (tmp_path / "pyproject.toml").write_text('[project]\ndependencies = ["a @ https://example.org/a.zip", "b"]\n')
    (tmp_path / "requirements.lock").write_text(
        "b==1 \\\n    --hash=sha256:00\nc==2\n    # via b\nhttps://example.org/d.zip\n"
    )
    assert [*unlocked(tmp_path)] == [
        "requirements.lock: c has no hash",
        "requirements.lock: https://example.org/d.zip is not a name with a version",
        "pyproject.toml: a @ https://example.org/a.zip is from a URL",
    ]


def test_our_lock_files_are_complete() -> None:
    assert [*unlocked(ROOT)] == []


def test_every_import_of_ours_is_declared() -> None:
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


def test_copyleft_and_proprietary_licences_are_not_allowed() -> None:
    for licence in ("GPL-3.0-or-later", "AGPL-3.0", "GNU General Public License v3", "Proprietary", "SSPL-1.0"):
        assert NEVER.search(licence) or not ALLOWED.search(licence)
    for licence in ("MIT", "BSD-3-Clause", "LGPL-3.0-only", "Apache Software License", "MPL-2.0 AND MIT"):
        assert ALLOWED.search(licence)
        assert not NEVER.search(licence)


def test_every_runtime_dependency_has_an_allowed_licence() -> None:
    assert {"click", "msgspec", "rich", "pygments"} <= closure(DISTRIBUTION)
    assert [*unlicensed(ROOT)] == []
