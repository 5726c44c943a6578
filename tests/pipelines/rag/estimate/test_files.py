"""Estimates of files: one that crashes or hangs is reported, and no other file is blamed for it or waits for it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("numpy", reason="document search needs the extra rag")

PROGRAM = """
import os, sys, time
from holdfast.pipelines.rag.estimate import files as measuring
from holdfast.pipelines.rag.chunk.splitters import Splitting

def measure(location, splitting, root):
    if "crash" in location:
        time.sleep(0.3)
        os.abort()
    if "slow" in location:
        time.sleep(1)
    if "hangs" in location:
        time.sleep(600)
    return measuring.guess_from_pages(1, splitting)

if __name__ == "__main__":
    measuring.estimate_file = measure
    measuring.FILE_TIMEOUT = 3
    for key, found in measuring.estimate_files([(name, name) for name in sys.argv[1:]], Splitting()):
        print(key, found if isinstance(found, str) else "measured")
"""


def test_a_file_that_crashes_or_hangs_is_reported_and_the_others_are_estimated(tmp_path: Path) -> None:
    program = tmp_path / "program.py"
    program.write_text(PROGRAM)
    names = ["slow", "crash", "fine", "hangs", "last"]
    said = subprocess.run(
        [sys.executable, str(program), *names], capture_output=True, text=True, timeout=120, check=True
    ).stdout
    blamed = "its pages could not be counted; it may be broken or hostile"
    assert said.splitlines() == [
        "slow measured",
        f"crash {blamed}",
        "fine measured",
        f"hangs {blamed}",
        "last measured",
    ]


def test_a_link_out_of_the_folder_is_not_read_for_an_estimate(tmp_path: Path) -> None:
    from holdfast.pipelines.rag.chunk.splitters import Splitting
    from holdfast.pipelines.rag.estimate.files import FileEstimate, estimate_file

    (tmp_path / "secret.txt").write_text("secret")
    (tmp_path / "root").mkdir()
    link = tmp_path / "root" / "link.txt"
    link.symlink_to(tmp_path / "secret.txt")
    refused = estimate_file(str(link), Splitting(), str(tmp_path / "root"))
    assert isinstance(refused, str)
    assert "outside of" in refused
    assert isinstance(estimate_file(str(link), Splitting()), FileEstimate)


def test_pages_of_a_pdf_are_split_to_count_their_chunks(tmp_path: Path) -> None:
    from holdfast.pipelines.rag.chunk.splitters import Splitting
    from holdfast.pipelines.rag.estimate.files import SAMPLED_PAGES, FileEstimate, estimate_file
    from tests.support.sample_files import pdf

    few, many = tmp_path / "few.pdf", tmp_path / "many.pdf"
    few.write_bytes(pdf(["Spring tides follow the full moon and the new moon."] * 3))
    many.write_bytes(pdf(["Spring tides follow the full moon and the new moon."] * (3 * SAMPLED_PAGES)))
    found = estimate_file(str(few), Splitting())
    assert isinstance(found, FileEstimate)
    assert (found.pages, found.chunks, found.pictures, found.service_pages) == (3, 3, 0, 3)
    found = estimate_file(str(many), Splitting())
    assert isinstance(found, FileEstimate)
    assert (found.pages, found.chunks) == (3 * SAMPLED_PAGES, 3 * SAMPLED_PAGES)


def test_pages_that_need_ocr_are_counted_and_not_read(tmp_path: Path) -> None:
    from holdfast.pipelines.rag.chunk.splitters import Splitting
    from holdfast.pipelines.rag.estimate.files import FileEstimate, estimate_file
    from tests.support.sample_files import picture, scan

    (tmp_path / "scan.pdf").write_bytes(scan(picture("Spring tides")))
    found = estimate_file(str(tmp_path / "scan.pdf"), Splitting())
    assert isinstance(found, FileEstimate)
    assert (found.pages, found.chunks, found.pictures) == (1, 1, 1)
