"""Containers of every format: their entries, where a run goes on, bombs, tricks in names, and what is encrypted."""

from __future__ import annotations

import bz2
import gzip
import json
import lzma
import os
import tarfile
from collections.abc import Callable, Iterator
from hashlib import sha256
from importlib.util import find_spec
from io import BytesIO
from pathlib import Path
from zipfile import ZIP_DEFLATED, ZipFile

import pytest

from holdfast.containers import ContainerKind, ContainerLimits, Entry, detect_container, open_container, spool
from holdfast.containers.seven_zip import find_program
from holdfast.core.errors import Reject

DATA = Path(os.environ.get("HOLDFAST_DATA", Path(__file__).resolve().parents[3] / "shared" / "data"))
SHARED = DATA / "ediscovery"
FILES = {"a.txt": b"ebb", "folder/b.txt": b"flow " * 1000, "empty.txt": b"", "folder/c.bin": bytes(range(256)) * 50}


def zip_file(path: Path) -> Path:
    with ZipFile(path, "w", ZIP_DEFLATED) as archive:
        archive.mkdir("folder")
        for name, content in FILES.items():
            archive.writestr(name, content)
    return path


def tar_file(path: Path, mode: str = "w") -> Path:
    with tarfile.open(path, mode) as archive:  # type: ignore[call-overload]  # a mode of any kind
        for name, content in FILES.items():
            info = tarfile.TarInfo(name)
            info.size = len(content)
            archive.addfile(info, BytesIO(content))
        link = tarfile.TarInfo("link")
        link.type, link.linkname = tarfile.SYMTYPE, "/etc/passwd"
        archive.addfile(link)
    return path


MAKERS: dict[ContainerKind, Callable[[Path], Path]] = {
    "zip": zip_file,
    "tar": tar_file,
    "gzip": lambda path: tar_file(path, "w:gz"),
    "bzip2": lambda path: tar_file(path, "w:bz2"),
    "xz": lambda path: tar_file(path, "w:xz"),
}


def kind_of(path: Path) -> ContainerKind:
    with path.open("rb") as file:
        kind = detect_container(file.read(1024))
    assert kind is not None
    return kind


def listed(path: Path, resume_at: object = None) -> list[Entry]:
    with open_container(path, kind_of(path)) as opened:
        return list(opened.entries(resume_at))


def content_of(path: Path, entry: Entry, limits: ContainerLimits | None = None) -> bytes:
    target = BytesIO()
    with open_container(path, kind_of(path), limits or ContainerLimits()) as opened:
        opened.extract(entry.position, target)
    return target.getvalue()


@pytest.mark.parametrize("kind", MAKERS)
def test_an_archive_has_its_files_and_a_listing_goes_on_after_any_of_them(tmp_path: Path, kind: ContainerKind) -> None:
    path = MAKERS[kind](tmp_path / "a")
    assert kind_of(path) == kind
    entries = listed(path)
    assert {entry.name: content_of(path, entry) for entry in entries} == FILES
    assert {entry.name: entry.size for entry in entries} == {name: len(content) for name, content in FILES.items()}
    for count, entry in enumerate(entries, 1):
        assert listed(path, entry.resume_at) == entries[count:]


@pytest.mark.parametrize("pack", [gzip.compress, bz2.compress, lzma.compress])
def test_a_packed_file_has_one_entry_named_after_it(tmp_path: Path, pack: Callable[[bytes], bytes]) -> None:
    path = tmp_path / "letter.txt.gz"
    path.write_bytes(pack(b"ebb and flow"))
    (entry,) = listed(path)
    assert entry.name == "letter.txt"
    assert content_of(path, entry) == b"ebb and flow"
    assert listed(path, entry.resume_at) == []


def test_a_packed_archive_is_unpacked_once_for_all_its_entries(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tar_file(tmp_path / "a.tgz", "w:gz")
    opened = []
    real = gzip.open
    monkeypatch.setattr(gzip, "open", lambda *args: (opened.append(1), real(*args))[1])
    for entry in listed(path):
        content_of(path, entry)
    assert len(opened) == 1
    spool.forget()


def test_the_entries_before_the_end_of_a_cut_archive_are_found(tmp_path: Path) -> None:
    path = tar_file(tmp_path / "a.tgz", "w:gz")
    path.write_bytes(path.read_bytes()[:-60])
    found: list[Entry] = []
    with open_container(path, "gzip") as opened, pytest.raises(Reject, match="broken"):
        found.extend(collected(opened.entries(), found))
    assert "a.txt" in [entry.name for entry in found]


def collected(entries: Iterator[Entry], found: list[Entry]) -> list[Entry]:
    """Collect entries one by one: an error at the end does not lose those before it."""
    for entry in entries:
        found.append(entry)
    return []


def test_names_are_relative_and_have_no_tricks(tmp_path: Path) -> None:
    path = tmp_path / "a.zip"
    with ZipFile(path, "w") as archive:
        for name in ("../../etc/passwd", "/root/x", "C:\\a\\b", "a/./b", "\u202efdp.exe", "x" * 500 + ".pdf"):
            archive.writestr(name, "x")
    names = [entry.name for entry in listed(path)]
    assert names[:5] == ["etc/passwd", "root/x", "a/b", "a/b", "fdp.exe"]
    assert len(names[5]) <= 150
    assert names[5].endswith(".pdf")


@pytest.mark.parametrize("kind", ["zip", "gzip"])
def test_a_bomb_is_rejected_before_it_fills_the_disk(tmp_path: Path, kind: ContainerKind) -> None:
    path = tmp_path / "a"
    zeros = bytes(64 << 20)
    if kind == "zip":
        with ZipFile(path, "w", ZIP_DEFLATED) as archive:
            archive.writestr("zeros", zeros)
    else:
        path.write_bytes(gzip.compress(zeros))
    with pytest.raises(Reject, match="decompression bomb"):
        content_of(path, listed(path)[0])


def test_too_many_entries_are_rejected(tmp_path: Path) -> None:
    path = zip_file(tmp_path / "a.zip")
    with pytest.raises(Reject, match="at most 2 are allowed"), open_container(path, "zip", ContainerLimits(entries=2)):
        pass


@pytest.mark.skipif(not SHARED.is_dir(), reason="HOLDFAST_DATA names the folder that has it")
def test_the_items_of_a_nested_archive_have_the_hashes_of_the_truth() -> None:
    truth = json.loads((SHARED / "containers/nested/truth.json").read_text())
    text = json.dumps(truth)
    path = SHARED / "containers/nested/matter.zip"
    hashes = [sha256(content_of(path, entry)).hexdigest() for entry in listed(path)]
    assert len(hashes) == 14
    assert all(digest in text for digest in hashes)


@pytest.mark.skipif(not SHARED.is_dir(), reason="HOLDFAST_DATA names the folder that has it")
@pytest.mark.skipif(find_program() is None, reason="7-Zip is not installed")
def test_real_7z_and_rar_archives_are_read_or_have_a_reason() -> None:
    expected = {
        "7z/solid.7z": (2, 0),
        "7z/test_3.7z": (15, 0),
        "7z/data_corrupted.7z": (2, 1),
        "7z/encrypted_1.7z": (0, 2),
        "rar/rar5-solid.rar": (2, 0),
        "rar/rar5-psw.rar": (0, 2),
        "rar/unicode.rar": (2, 0),
    }
    for name, (good, bad) in expected.items():
        path = SHARED / "containers" / name
        found = []
        for entry in listed(path):
            try:
                found.append(content_of(path, entry) is not None)
            except Reject:
                found.append(False)
        assert (found.count(True), found.count(False)) == (good, bad), name
    with pytest.raises(Reject, match="encrypted"):
        listed(SHARED / "containers/7z/filename_encryption.7z")


@pytest.mark.skipif(not SHARED.is_dir(), reason="HOLDFAST_DATA names the folder that has it")
@pytest.mark.skipif(find_spec("pypff") is None, reason="libpff-python is not installed")
def test_the_messages_of_real_outlook_files_are_counted_as_libpff_counts_them() -> None:
    truth = json.loads((SHARED / "pst/truth.json").read_text())
    for name, counts in truth.items():
        if name.endswith(".pst") and isinstance(counts.get("libpff"), dict):
            path = SHARED / "pst" / name
            entries = listed(path)
            assert len(entries) == counts["libpff"]["messages"], name
            assert all(content_of(path, entry) for entry in entries)
