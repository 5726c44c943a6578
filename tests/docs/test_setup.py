"""What a fresh machine meets first: the lock, the script, the targets."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from tests.docs.pages import ROOT, blocks

LOCKS = ("requirements.lock", "requirements-run.lock")
PIN = re.compile(r"^([a-z0-9.-]+)==(\S+)", re.MULTILINE)


@pytest.mark.parametrize("name", LOCKS)
def test_a_lock_names_no_package_host(name: str) -> None:
    text = (ROOT / name).read_text(encoding="utf-8")
    assert "://" not in text
    assert "index-url" not in text
    assert "find-links" not in text


@pytest.mark.parametrize("name", LOCKS)
def test_every_package_in_a_lock_is_pinned_and_hashed(name: str) -> None:
    text = (ROOT / name).read_text(encoding="utf-8")
    requirements = re.split(r"\n(?=\S)", text.strip())
    assert all(PIN.match(one) and "--hash=sha256:" in one for one in requirements if not one.startswith("#"))


def test_the_locks_agree() -> None:
    everything, to_run = (dict(PIN.findall((ROOT / name).read_text(encoding="utf-8"))) for name in LOCKS)
    assert to_run.items() <= everything.items()


def test_the_lock_has_every_dependency_that_is_declared() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    declared = [
        *project["project"]["dependencies"],
        *(one for extra in project["project"]["optional-dependencies"].values() for one in extra),
        *project["dependency-groups"]["dev"],
    ]
    locked = dict(PIN.findall((ROOT / "requirements.lock").read_text(encoding="utf-8")))
    names = [re.match(r"[A-Za-z0-9.-]+", one) for one in declared]
    missing = [name[0] for name in names if name and re.sub(r"[-_.]+", "-", name[0].lower()) not in locked]
    assert not missing, f"run `make lock`: {missing}"


def test_the_readme_sets_everything_up_with_two_commands() -> None:
    shown = [block.text.strip() for block in blocks(ROOT / "README.md") if block.kind == "sh"]
    assert "./hf demo" in shown
    assert "./hf test" in shown


def test_ci_calls_the_readmes_test_command() -> None:
    assert "\n./hf test" in (ROOT / ".ci/run").read_text(encoding="utf-8")


def test_make_help_lists_every_target() -> None:
    if shutil.which("make") is None:
        pytest.skip("there is no make on this machine")
    said = subprocess.run(["make", "help"], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    for target in ("demo", "test", "lint", "types", "format", "docs", "lock", "bench", "crash", "clean"):
        assert re.search(rf"^{target}\s+\w", said, re.MULTILINE), f"{target} is not listed"


@pytest.mark.skipif(os.name != "posix", reason="hf is a script for a POSIX shell")
def test_hf_says_what_to_do_when_there_is_no_venv(tmp_path: Path) -> None:
    shutil.copy(ROOT / "hf", tmp_path / "hf")
    python = tmp_path / "python3"
    python.write_text(
        '#!/bin/sh\ncase "$*" in *venv*) echo "No module named venv"; exit 1;; esac\necho Python 3.11.2\n'
    )
    python.chmod(0o755)
    environment = {"PATH": f"{tmp_path}:/usr/bin:/bin", "HF_PYTHON": str(python)}
    done = run_hf(tmp_path, environment)
    assert done.returncode == 1
    assert "apt install python3-venv" in done.stderr
    assert not (tmp_path / ".venv").exists()


@pytest.mark.skipif(os.name != "posix", reason="hf is a script for a POSIX shell")
def test_hf_says_so_when_python_is_too_old(tmp_path: Path) -> None:
    shutil.copy(ROOT / "hf", tmp_path / "hf")
    tools = tmp_path / "bin"
    tools.mkdir()
    for tool in ("sh", "dirname", "cat", "sed"):
        (tools / tool).symlink_to(shutil.which(tool) or f"/bin/{tool}")
    done = run_hf(tmp_path, {"PATH": str(tools)})
    assert done.returncode == 1
    assert "no Python 3.11 or newer was found" in done.stderr


def run_hf(folder: Path, environment: dict[str, str]) -> subprocess.CompletedProcess[str]:
    words = ["/bin/sh", "hf", "demo"]
    return subprocess.run(words, cwd=folder, env=environment, capture_output=True, text=True, check=False)


@pytest.mark.skipif(os.name != "posix", reason="hf is a script for a POSIX shell")
@pytest.mark.parametrize(
    ("word", "lock"), [("search", "requirements-rag.lock"), ("status", "requirements-run.lock")], ids=["rag", "run"]
)
def test_hf_takes_paths_from_where_people_are(tmp_path: Path, word: str, lock: str) -> None:
    home, here = tmp_path / "home", tmp_path / "here"
    commands = home / ".venv" / "bin"
    commands.mkdir(parents=True)
    here.mkdir()
    for name in ("hf", lock, "pyproject.toml"):
        shutil.copy(ROOT / name, home / name)
    (commands / "python").symlink_to(sys.executable)
    (commands / "holdfast").write_text('#!/bin/sh\npwd\necho "$@"\n')
    (commands / "holdfast").chmod(0o755)
    files = _both(home / lock, home / "pyproject.toml")
    installed = subprocess.run(["cksum"], input=files, capture_output=True, check=True)
    (home / ".venv" / f".hf-{lock}").write_bytes(installed.stdout)
    done = subprocess.run([home / "hf", word, "notes"], cwd=here, capture_output=True, text=True, check=True)
    assert done.stdout.splitlines() == [str(here), f"{word} notes"]


def _both(*files: Path) -> bytes:
    return b"".join(file.read_bytes() for file in files)
