"""Every message of a mailbox is found, wherever a run goes on, and no byte is lost."""

from __future__ import annotations

import json
import os
from io import BytesIO
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.containers import Entry, detect_container, mbox, open_container
from holdfast.core.errors import Reject

DATA = Path(os.environ.get("HOLDFAST_DATA", Path(__file__).resolve().parents[3] / "shared" / "data"))
SHARED = DATA / "ediscovery" / "mail" / "mbox-mimekit"
FROM = "From clerk@harbour.example Thu Nov 19 10:00:00 2026\n"


def mailbox(path: Path, bodies: list[str], *, line: str = FROM, end: str = "\n") -> Path:
    texts = (
        f"{line}From: clerk@harbour.example\nSubject: Letter {n}\n\n{body}\n{end}" for n, body in enumerate(bodies)
    )
    path.write_bytes("".join(texts).encode())
    return path


def listed(path: Path, resume_at: object = None) -> list[Entry]:
    with open_container(path, "mbox") as opened:
        return list(opened.entries(resume_at))


def contents(path: Path) -> list[str]:
    with open_container(path, "mbox") as opened:
        found = []
        for entry in opened.entries():
            target = BytesIO()
            opened.extract(entry.position, target)
            found.append(target.getvalue().decode())
        return found


def test_each_message_is_an_entry_named_by_its_number_and_subject(tmp_path: Path) -> None:
    path = mailbox(tmp_path / "a", ["ebb", "flow", "slack"])
    assert detect_container(path.read_bytes()) == "mbox"
    assert [entry.name for entry in listed(path)] == ["1 Letter 0.eml", "2 Letter 1.eml", "3 Letter 2.eml"]
    assert contents(path)[1] == "From: clerk@harbour.example\nSubject: Letter 1\n\nflow\n\n"


def test_a_listing_goes_on_after_any_entry(tmp_path: Path) -> None:
    path = mailbox(tmp_path / "a", ["ebb", "flow", "slack"])
    whole = listed(path)
    for count, entry in enumerate(whole, 1):
        assert listed(path, entry.resume_at) == whole[count:]


def test_quoted_from_lines_are_text_and_lose_one_sign(tmp_path: Path) -> None:
    path = mailbox(tmp_path / "a", ["text\n\n>From here on\n>>From there", "b"])
    assert "\n\nFrom here on\n>From there\n" in contents(path)[0]
    assert len(contents(path)) == 2


def test_a_line_that_only_begins_like_a_from_line_is_text(tmp_path: Path) -> None:
    path = mailbox(tmp_path / "a", ["hello\n\nFrom Russia with love\n\nFrom 1999 on, it rained.\nMore text", "b"])
    assert len(listed(path)) == 2


def test_a_message_without_an_empty_line_before_it_is_not_lost(tmp_path: Path) -> None:
    path = mailbox(tmp_path / "a", ["ebb", "flow"], end="")
    assert len(listed(path)) == 2


def test_windows_line_ends_and_mozillas_dash_are_read(tmp_path: Path) -> None:
    path = mailbox(tmp_path / "a", ["ebb", "flow"], line="From - \n")
    path.write_bytes(path.read_bytes().replace(b"\n", b"\r\n"))
    assert len(listed(path)) == 2


def test_a_file_with_one_message_is_no_mailbox_of_several(tmp_path: Path) -> None:
    assert mbox.has_one_message(mailbox(tmp_path / "a", ["ebb"]))
    assert not mbox.has_one_message(mailbox(tmp_path / "b", ["ebb", "flow"]))


def test_a_mailbox_that_changed_gives_no_wrong_message(tmp_path: Path) -> None:
    path = mailbox(tmp_path / "a", ["ebb", "flow"])
    second = listed(path)[1]
    mailbox(path, ["a longer text than before", "flow"])
    with open_container(path, "mbox") as opened, pytest.raises(Reject, match="not have this message any more"):
        opened.extract(second.position, BytesIO())


def test_messages_that_are_appended_leave_the_others_as_they_are(tmp_path: Path) -> None:
    path = mailbox(tmp_path / "a", ["ebb", "flow"])
    before = listed(path)
    mailbox(path, ["ebb", "flow", "slack"])
    assert listed(path)[:2] == before


@given(st.lists(st.text(st.sampled_from("From >:\n 2026\r"), max_size=40), min_size=1, max_size=6), st.integers(1, 99))
def test_no_byte_is_lost_and_pieces_of_any_size_give_the_same(texts: list[str], size: int) -> None:
    content = "".join(f"{FROM}A: b\n\n{text}\n\n" for text in texts).encode()
    ends = list(mbox._ends(BytesIO(content), 0))
    assert ends[-1] == len(content)
    assert len(ends) >= len(texts)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(mbox, "READ_SIZE", size)
        assert list(mbox._ends(BytesIO(content), 0)) == ends


@pytest.mark.skipif(not SHARED.is_dir(), reason="HOLDFAST_DATA names the folder that has it")
@pytest.mark.parametrize("name", ["content-length", "issue1189"])
def test_the_messages_of_real_mailboxes_begin_where_mimekit_finds_them(name: str) -> None:
    truth = json.loads((SHARED / f"{name}.unix-offsets.json").read_text())
    found = listed(SHARED / f"{name}.mbox.txt")
    assert [entry.position[0] for entry in found] == [message["mboxMarkerOffset"] for message in truth]
