"""A hostile capsule or payload can neither run code nor read files: an audit hook watches a process that tries."""

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

from tests.fuzz.targets.capsules import genuine
from tests.fuzz.turns import ROOT

TRAP = "touch /tmp/never"


class Trap:
    """What unpickling would run."""

    def __reduce__(self) -> Any:
        return os.system, (TRAP,)


def with_payload(payload: Any) -> bytes:
    capsule = msgspec.json.decode(genuine())
    capsule["document"]["payload"] = payload
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
TAKEN = {
    "paths": with_payload({"path": "/etc/passwd", "url": "file:///etc/shadow", "up": "../../../../etc/passwd"}),
    "code": with_payload([f"__import__('os').system('{TRAP}')", "{0.__class__}", "%(a)s", "${HOME}", f"$({TRAP})"]),
    "tags": with_payload({"py/object": "os.system", "$type": "System.Diagnostics.Process", "__reduce__": [TRAP]}),
    "sql": with_payload("'); drop table hf_document; --"),
    "key-that-climbs": with_text('"key":"k"', '"key":"../../../etc/passwd"'),
    "large-number": with_payload(10**300),
    "pickled-item": with_payload({"data": pickle.dumps(Trap()).hex()}),
}


@pytest.fixture(scope="module")
def told(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """What a process did that read them all."""
    folder = tmp_path_factory.mktemp("sealed")
    for name, data in (REFUSED | TAKEN).items():
        (folder / f"{name}.capsule").write_bytes(data)
    environment = os.environ | {"PYTHONPATH": f"{ROOT / 'src'}{os.pathsep}{ROOT}"}
    command = [sys.executable, "-m", "tests.fuzz.sealed", str(folder)]
    said = subprocess.run(command, env=environment, capture_output=True, text=True, check=False, timeout=100)
    assert said.returncode == 0, said.stderr
    lines = [json.loads(line) for line in said.stdout.splitlines()]
    return {line["file"].removesuffix(".capsule"): line for line in lines}


@pytest.mark.parametrize("name", REFUSED)
def test_what_is_no_capsule_is_refused_and_does_nothing(told: dict[str, Any], name: str) -> None:
    assert told[name]["came"].startswith("refused: ")
    assert told[name]["seen"] == []


@pytest.mark.parametrize("name", TAKEN)
def test_a_capsule_is_carried_as_it_is_and_does_nothing(told: dict[str, Any], name: str) -> None:
    assert told[name]["came"] == "taken"
    assert told[name]["seen"] == []


def test_the_trap_was_not_sprung(told: dict[str, Any]) -> None:
    assert told
    assert not Path("/tmp/never").exists()


def test_the_hook_sees_what_it_is_there_for(tmp_path: Path) -> None:
    watched = (
        "import sys, pickle; from pathlib import Path; from tests.fuzz.sealed import Hook\n"
        f"hook = Hook(Path({str(tmp_path)!r})); hook.begin()\n"
        "pickle.loads(b'cos\\nsystem\\n(S\\'true\\'\\ntR.'); open('/etc/hosts').close(); eval('1'); hook.end()\n"
        "print([one.split()[0] for one in hook.seen])"
    )
    environment = os.environ | {"PYTHONPATH": f"{ROOT / 'src'}{os.pathsep}{ROOT}"}
    said = subprocess.run(
        [sys.executable, "-c", watched], env=environment, capture_output=True, text=True, check=True, timeout=60
    )
    for event in ("pickle.find_class", "os.system", "open", "compile", "exec"):
        assert f"'{event}'" in said.stdout
