"""Set-up on a new machine: the lock files, the script, the make targets."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tomllib
import zipfile
from pathlib import Path

import pytest

from holdfast.cli.app import COMMANDS
from tests.docs.pages import ROOT, blocks

LOCKS = ("requirements.lock", "requirements-rag.lock", "requirements-run.lock")
LIST_OF_COMMANDS = "src/holdfast/cli/app.py"
NO_PIP = 7
"""The exit code of pip in a folder in which nothing can be installed."""
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
    assert all(PIN.match(line) and "--hash=sha256:" in line for line in requirements if not line.startswith("#"))


def test_the_locks_agree() -> None:
    everything, search, to_run = (dict(PIN.findall((ROOT / name).read_text(encoding="utf-8"))) for name in LOCKS)
    assert to_run.items() <= search.items() <= everything.items()


def test_the_lock_has_every_dependency_that_is_declared() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    extras = project["project"]["optional-dependencies"]
    declared = [
        *project["project"]["dependencies"],
        *(package for name, extra in extras.items() if name != "all" for package in extra),
        *project["dependency-groups"]["dev"],
    ]
    locked = dict(PIN.findall((ROOT / "requirements.lock").read_text(encoding="utf-8")))
    names = [re.match(r"[A-Za-z0-9.-]+", package) for package in declared]
    missing = [name[0] for name in names if name and re.sub(r"[-_.]+", "-", name[0].lower()) not in locked]
    assert not missing, f"run `make lock`: {missing}"


def test_the_readme_sets_everything_up_with_two_commands() -> None:
    shown = [block.text.strip() for block in blocks(ROOT / "README.md") if block.kind == "sh"]
    assert shown[:2] == ["git clone URL holdfast && cd holdfast", "./hf demo"]
    assert blocks(ROOT / "README.md")[0].kind == "sh"
    assert "./hf demo" in shown
    assert "./hf test" in shown


def test_ci_calls_the_readmes_test_command() -> None:
    assert "\n./hf test" in (ROOT / ".ci/run").read_text(encoding="utf-8")


def test_the_usage_of_hf_fits_a_terminal_and_says_how_to_list_all_commands() -> None:
    output = subprocess.run([ROOT / "hf", "--help"], cwd=ROOT, capture_output=True, text=True, check=False).stdout
    assert "./hf help        list all commands" in output
    assert max(map(len, output.splitlines())) <= 80


def test_make_help_lists_every_target() -> None:
    if shutil.which("make") is None:
        pytest.skip("make is not installed on this machine")
    output = subprocess.run(["make", "help"], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    for target in ("demo", "test", "lint", "types", "format", "docs", "lock", "bench", "crash", "clean"):
        assert re.search(rf"^{target}\s+\w", output, re.MULTILINE), f"{target} is not listed"


def test_the_wheel_has_every_file_of_the_package_and_nothing_else(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(tmp_path)]
    subprocess.run(command, cwd=ROOT, capture_output=True, check=True)
    (wheel,) = tmp_path.iterdir()
    assert wheel.name.startswith("holdfast_pipelines-")
    packed = {name for name in zipfile.ZipFile(wheel).namelist() if ".dist-info/" not in name}
    package = [path for path in (ROOT / "src/holdfast").rglob("*") if path.is_file() and path.suffix != ".pyc"]
    assert packed == {path.relative_to(ROOT / "src").as_posix() for path in package}
    assert {".html", ".onnx", ".py", ".sql", ".txt", ".typed"} == {Path(name).suffix for name in packed}


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
    ("word", "packages"), [(word, packages) for section in COMMANDS.values() for word, (packages, _) in section.items()]
)
def test_hf_installs_what_a_command_needs_and_takes_paths_from_where_people_are(
    tmp_path: Path, word: str, packages: str
) -> None:
    home = home_with(tmp_path, f"requirements-{packages}.lock")
    assert called(home, word, "notes") == [str(tmp_path / "here"), f"{word} notes", "../home/hf"]


@pytest.mark.skipif(os.name != "posix", reason="hf is a script for a POSIX shell")
@pytest.mark.parametrize(
    ("word", "lock"),
    [
        ("status", "requirements-rag.lock"),
        ("status", "requirements.lock"),
        ("search", "requirements.lock"),
        ("demo", "requirements-rag.lock"),
        ("demo", "requirements.lock"),
    ],
)
def test_hf_installs_nothing_if_a_larger_lock_is_installed(tmp_path: Path, word: str, lock: str) -> None:
    home = home_with(tmp_path, lock)
    assert called(home, word, "notes")[0] == str(tmp_path / "here")


@pytest.mark.skipif(os.name != "posix", reason="hf is a script for a POSIX shell")
def test_hf_installs_again_if_a_lock_has_changed(tmp_path: Path) -> None:
    home = home_with(tmp_path, "requirements-rag.lock")
    with (home / "requirements-rag.lock").open("a") as lock:
        lock.write("one-more==1\n")
    done = call(home, "demo")
    assert done.returncode == NO_PIP
    assert "packages from requirements-rag.lock" in done.stderr


def home_with(folder: Path, lock: str) -> Path:
    """Return a folder with hf, in which this lock file is installed, as far as hf knows. Nothing else can be."""
    home = folder / "home"
    commands = home / ".venv" / "bin"
    commands.mkdir(parents=True)
    (folder / "here").mkdir()
    (home / LIST_OF_COMMANDS).parent.mkdir(parents=True)
    shutil.copy(ROOT / LIST_OF_COMMANDS, home / LIST_OF_COMMANDS)
    for name in ("hf", lock, "pyproject.toml"):
        shutil.copy(ROOT / name, home / name)
    program(commands / "python", f'case "$*" in "-m pip "*) exit {NO_PIP};; esac; exec "{sys.executable}" "$@"')
    program(commands / "holdfast", 'pwd; echo "$@"; echo "$HOLDFAST_COMMAND"')
    program(folder / "bin" / "uv", "exit 1")
    (home / "scripts").mkdir()
    demo = "import os\nprint(os.getcwd(), os.environ['HOLDFAST_COMMAND'], sep='\\n')\n"
    (home / "scripts" / "demo.py").write_text(demo)
    files = _both(home / lock, home / "pyproject.toml")
    installed = subprocess.run(["cksum"], input=files, capture_output=True, check=True)
    (home / ".venv" / f".hf-{lock}").write_bytes(installed.stdout)
    return home


def program(path: Path, body: str) -> None:
    """Write a shell script."""
    path.parent.mkdir(exist_ok=True)
    path.write_text(f"#!/bin/sh\n{body}\n")
    path.chmod(0o755)


def call(home: Path, *words: str) -> subprocess.CompletedProcess[str]:
    """Call hf from another folder."""
    environment = {**os.environ, "PATH": f"{home.parent / 'bin'}{os.pathsep}{os.environ['PATH']}"}
    here = home.parent / "here"
    command = ["../home/hf", *words]
    return subprocess.run(command, cwd=here, env=environment, capture_output=True, text=True, check=False)


def called(home: Path, *words: str) -> list[str]:
    """Call hf from another folder. Return the lines that it prints."""
    done = call(home, *words)
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout.splitlines()


def _both(*files: Path) -> bytes:
    return b"".join(file.read_bytes() for file in files)
