"""Mailboxes and archives with random damage: every entry is listed and written, or has a reason."""

from __future__ import annotations

import bz2
import gzip
import lzma
import tarfile
from io import BytesIO
from pathlib import Path
from zipfile import ZIP_DEFLATED, ZipFile

from holdfast.containers import ContainerKind, ContainerLimits, detect_container, open_container, spool
from holdfast.containers.entry import Entry
from holdfast.core.errors import Reject
from tests.fuzz.inputs import write_scratch_file
from tests.fuzz.target import takes_bytes

ENTRIES = (
    "A container is listed to its end or to a reason, its names are relative, and a listing goes on after any entry."
)
LIMITS = ContainerLimits(entries=200, entry_bytes=4 << 20, bytes=16 << 20, seconds=20)
MAILBOX = b"""From a@b Thu Nov 19 10:00:00 2026
From: a@b
Subject: =?utf-8?q?T=C3=ADdes?=

>From here

From - Thu Nov 19 10:00:00 2026
Subject: b

text
From c Thu Nov 19 10:00:00 2026

x
"""


def _tar() -> bytes:
    target = BytesIO()
    with tarfile.open(fileobj=target, mode="w") as archive:
        for name in ("a.txt", "../b" * 40, "folder/c"):
            info = tarfile.TarInfo(name)
            info.size = 3
            archive.addfile(info, BytesIO(b"abc"))
    return target.getvalue()


def _zip() -> bytes:
    target = BytesIO()
    with ZipFile(target, "w", ZIP_DEFLATED) as archive:
        for name in ("a.txt", "../../b", "folder/c"):
            archive.writestr(name, "abc" * 100)
    return target.getvalue()


def _outcome(path: Path, kind: ContainerKind) -> None:
    with open_container(path, kind, LIMITS) as container:
        found: list[Entry] = []
        try:
            for entry in container.entries():
                found.append(entry)
                assert not entry.name.startswith("/")
                assert ".." not in entry.name.split("/")
                entry.name.encode()
        except Reject:
            pass
        else:
            for count, entry in enumerate(found[:3], 1):
                assert list(container.entries(entry.resume_at)) == found[count:]
        for entry in found:
            try:
                container.extract(entry.position, BytesIO())
            except Reject:
                continue


def _read(name: str, data: bytes, *kinds: ContainerKind) -> None:
    spool.forget()
    path = write_scratch_file(name, data)
    detect_container(data[:1024])
    for kind in kinds:
        try:
            _outcome(path, kind)
        except Reject:
            continue


@takes_bytes([MAILBOX, MAILBOX.replace(b"\n", b"\r\n")], ENTRIES)
def mailboxes(data: bytes) -> None:
    _read("a.mbox", data, "mbox")


@takes_bytes([_tar()], ENTRIES)
def tar_archives(data: bytes) -> None:
    _read("a.tar", data, "tar")


@takes_bytes([_zip()], ENTRIES)
def zip_archives(data: bytes) -> None:
    _read("a.zip", data, "zip")


@takes_bytes([gzip.compress(_tar(), mtime=0), bz2.compress(b"abc"), lzma.compress(_tar())], ENTRIES)
def packed_files(data: bytes) -> None:
    if (kind := detect_container(data)) in ("gzip", "bzip2", "xz", "zstd"):
        _read("a.gz", data, kind)
