"""A hostile capsule or payload can neither run code nor read files. An audit hook watches a process that loads it."""

from __future__ import annotations

import io
import json
import os
import pickle
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path
from typing import Any

import msgspec
import pytest

from tests.fuzz.campaign import ROOT
from tests.fuzz.capsule_audit import LETTERS
from tests.fuzz.targets.capsules import genuine, genuine_of_document_search

pytest.importorskip("numpy", reason="document search needs the extra rag")

TRAP = "touch /tmp/never"
NEW = {"state": "waiting", "step": "read", "cursor": None, "moves": 0, "due_at": "2026-11-18T00:00:00Z"}


class Trap:
    """An object that runs a command when it is unpickled."""

    def __reduce__(self) -> Any:
        return os.system, (TRAP,)


def with_payload(payload: Any) -> bytes:
    """Return a capsule with another payload, whose document is at the start."""
    capsule = msgspec.json.decode(genuine())
    capsule["document"] |= NEW | {"payload": payload}
    return msgspec.json.encode(capsule | {"items": [], "outputs": [], "journal": []})


def of_a_file(location: Any, *, batch: str = "/letters", key: str = "a.txt", **more: Any) -> bytes:
    """Return a capsule of document search with this location of its file."""
    capsule = msgspec.json.decode(genuine_of_document_search())
    capsule["document"] |= {"batch": batch, "key": key, "payload": {"location": location, "name": key, **more}}
    return msgspec.json.encode(capsule)


def with_text(old: str, new: str) -> bytes:
    return genuine().decode().replace(old, new).encode()


def tar_with_a_link() -> bytes:
    whole = io.BytesIO()
    with tarfile.open(fileobj=whole, mode="w") as archive:
        link = tarfile.TarInfo("capsule.json")
        link.type, link.linkname = tarfile.SYMTYPE, "/etc/passwd"
        archive.addfile(link)
    return whole.getvalue()


def zip_that_climbs() -> bytes:
    whole = io.BytesIO()
    with zipfile.ZipFile(whole, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("../../etc/cron.d/x", "x" * 1000)
        archive.writestr("bomb", b"\0" * (1 << 20))
    return whole.getvalue()


REFUSED = {
    "pickle": pickle.dumps(Trap()),
    "yaml": f"!!python/object/apply:os.system ['{TRAP}']".encode(),
    "python": f"__import__('os').system('{TRAP}')".encode(),
    "tar": tar_with_a_link(),
    "zip": zip_that_climbs(),
    "empty": b"",
    "deep": b'{"a":' * 100_000,
    "deep-payload": with_text('"/etc/passwd"', "[" * 50_000 + "]" * 50_000),
    "nan": with_text('"/etc/passwd"', "NaN"),
    "surrogate": with_text('"/etc/passwd"', '"\\ud800"'),
    "nul-key": with_text('"key":"k"', '"key":"a\\u0000b"'),
    "step-that-climbs": with_text('"name":"read"', '"name":"../../read"'),
    "pipeline-that-runs": with_text('"pipeline":"fuzz"', '"pipeline":"os; import sys"'),
    "huge-number": with_text('"moves":', '"moves":9' + "9" * 400),
    "unknown-field": genuine()[:-1] + b',"__class__":"os.system"}',
    "xml": b'<!DOCTYPE a [<!ENTITY b SYSTEM "file:///etc/passwd">]><a>&b;</a>',
}
LOADED = {
    "paths": with_payload({"path": "/etc/passwd", "url": "file:///etc/shadow", "up": "../../../../etc/passwd"}),
    "code": with_payload([f"__import__('os').system('{TRAP}')", "{0.__class__}", "%(a)s", "${HOME}", f"$({TRAP})"]),
    "tags": with_payload({"py/object": "os.system", "$type": "System.Diagnostics.Process", "__reduce__": [TRAP]}),
    "sql": with_payload("'); drop table hf_document; --"),
    "key-that-climbs": with_text('"key":"k"', '"key":"../../../etc/passwd"'),
    "large-number": with_payload(10**300),
    "pickled-item": with_payload({"data": pickle.dumps(Trap()).hex()}),
}

SEARCHED = {
    "file": of_a_file("/etc/passwd"),
    "file-of-its-folder": of_a_file("/etc/passwd", batch="/etc", key="passwd"),
    "file-itself": of_a_file("/etc/passwd", batch="/etc/passwd", key="passwd"),
    "file-of-the-root": of_a_file("/etc/passwd", batch="/", key="etc/passwd"),
    "file-of-ours": of_a_file("/etc/passwd", batch=LETTERS),
    "file-that-climbs": of_a_file(f"{LETTERS}/../../../../../../../etc/passwd", batch=LETTERS),
    "file-from-where-we-are": of_a_file("../../../../../../../../etc/passwd"),
    "file-inside": of_a_file("/etc/passwd", key="a.eml#a.txt", inside=[0]),
    "file-as-url": of_a_file("file:///etc/passwd", batch="file:///etc"),
    "file-by-chain": of_a_file("memory://a::file:///etc/passwd", batch="memory://a"),
    "page": of_a_file("http://127.0.0.1:9/admin", batch="http://127.0.0.1:9/admin"),
    "object": of_a_file("s3://bucket/secret", batch="s3://bucket"),
    "no-place": of_a_file(["/etc/passwd"]),
}


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """The results of a process that read all capsules."""
    folder = tmp_path_factory.mktemp("sealed")
    for name, data in (REFUSED | LOADED | SEARCHED).items():
        content = data.replace(f'"{LETTERS}'.encode(), f'"{folder / LETTERS}'.encode())
        (folder / f"{name}.capsule").write_bytes(content)
    environment = os.environ | {"PYTHONPATH": f"{ROOT / 'src'}{os.pathsep}{ROOT}"}
    command = [sys.executable, "-m", "tests.fuzz.capsule_audit", str(folder)]
    process = subprocess.run(command, env=environment, capture_output=True, text=True, check=False, timeout=100)
    assert process.returncode == 0, process.stderr
    lines = [json.loads(line) for line in process.stdout.splitlines()]
    return {line["file"].removesuffix(".capsule"): line for line in lines}


@pytest.mark.parametrize("name", REFUSED)
def test_an_invalid_capsule_is_refused_and_does_nothing(results: dict[str, Any], name: str) -> None:
    assert results[name]["outcome"].startswith("refused: ")
    assert results[name]["seen"] == []


@pytest.mark.parametrize("name", LOADED)
def test_a_hostile_capsule_is_loaded_unchanged_and_does_nothing(results: dict[str, Any], name: str) -> None:
    assert results[name]["outcome"] == "loaded"
    assert results[name]["seen"] == []


@pytest.mark.parametrize("name", LOADED)
def test_processing_a_capsule_runs_nothing_that_it_contains(results: dict[str, Any], name: str) -> None:
    assert results[name]["states"] == ["done"]
    assert results[name]["done"] == []


@pytest.mark.parametrize("name", SEARCHED)
def test_document_search_opens_no_file_that_a_capsule_names(results: dict[str, Any], name: str) -> None:
    assert (results[name]["outcome"], results[name]["seen"]) == ("loaded", [])
    assert "done" in results[name]["states"], "the folder was not ingested"
    assert results[name]["done"] == []


def test_no_command_of_a_capsule_was_run(results: dict[str, Any]) -> None:
    assert results
    assert not Path("/tmp/never").exists()


def test_the_hook_records_forbidden_events(tmp_path: Path) -> None:
    watched = (
        "import sys, pickle; from pathlib import Path; from tests.fuzz.capsule_audit import Hook\n"
        f"hook = Hook(Path({str(tmp_path)!r}))\n"
        "with hook.reading() as seen:\n"
        "    pickle.loads(b'cos\\nsystem\\n(S\\'true\\'\\ntR.'); open('/etc/hosts').close(); eval('1')\n"
        "print([event.split()[0] for event in seen])"
    )
    output = _output_of(watched)
    for event in ("pickle.find_class", "os.system", "open", "compile", "exec"):
        assert f"'{event}'" in output


def test_the_hook_records_events_of_forked_children(tmp_path: Path) -> None:
    watched = (
        "import os; from pathlib import Path; from tests.fuzz.capsule_audit import Hook\n"
        f"hook = Hook(Path({str(tmp_path)!r}))\n"
        "with hook.working() as seen:\n"
        "    child = os.fork()\n"
        "    if not child: open('/etc/hosts').close(); os._exit(0)\n"
        "    os.waitpid(child, 0)\n"
        "print(seen)"
    )
    assert "/etc/hosts" in _output_of(watched)


def _output_of(code: str) -> str:
    """Run code in a process and return its output."""
    environment = os.environ | {"PYTHONPATH": f"{ROOT / 'src'}{os.pathsep}{ROOT}"}
    process = subprocess.run(
        [sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True, timeout=60
    )
    return process.stdout
