"""Containers in document search: their entries are documents of their own, and a killed ingest goes on at the next."""

from __future__ import annotations

import tarfile
from collections.abc import Iterator
from contextlib import contextmanager
from email.message import EmailMessage
from io import BytesIO
from pathlib import Path
from zipfile import ZipFile

import pytest

pytest.importorskip("numpy", reason="document search needs the extra rag")

from holdfast.pipelines import rag
from holdfast.pipelines.rag.collections.remarks import read_remarks
from holdfast.stores.protocol import Store
from tests.scenarios.document_search.killed_ingest import kill_again_and_again
from tests.support import sample_files

WORDS = ("plover", "curlew", "dunlin", "godwit")


@contextmanager
def library_on(store: Store) -> Iterator[rag.Library]:
    library = rag.Library(store, settings=rag.CollectionSettings(embedder="hash:64"))
    try:
        yield library
    finally:
        library.close()


def found(library: rag.Library, word: str) -> set[str]:
    return {hit.key for hit in library.search(word) if word in hit.snippet}


def message(subject: str, body: str) -> bytes:
    return f"From: a@harbour.example\nTo: b@harbour.example\nSubject: {subject}\n\n{body}\n\n".encode()


def mailbox(bodies: list[str]) -> bytes:
    line = b"From a@harbour.example Thu Nov 19 10:00:00 2026\n"
    return b"".join(line + message(f"On the {body}", f"A {body} was seen.") for body in bodies)


def test_each_message_of_a_mailbox_is_a_document(each_store: Store, tmp_path: Path) -> None:
    (tmp_path / "inbox.mbox").write_bytes(mailbox(list(WORDS)))
    with library_on(each_store) as library:
        report = library.ingest(str(tmp_path))
        assert (report.done, report.dead) == (5, 0)
        for number, word in enumerate(WORDS, 1):
            assert found(library, word) == {f"inbox.mbox#{number} On the {word}.eml"}


def test_new_messages_are_read_and_old_ones_are_not(store: Store, tmp_path: Path) -> None:
    path = tmp_path / "inbox.mbox"
    path.write_bytes(mailbox(list(WORDS[:3])))
    with library_on(store) as library:
        library.ingest(str(tmp_path))
        path.write_bytes(mailbox(list(WORDS)))
        report = library.ingest(str(tmp_path))
        assert report.done == 2
        assert found(library, WORDS[3])


def test_messages_that_are_gone_from_a_mailbox_are_not_found_any_more(store: Store, tmp_path: Path) -> None:
    path = tmp_path / "inbox.mbox"
    path.write_bytes(mailbox(list(WORDS)))
    with library_on(store) as library:
        library.ingest(str(tmp_path))
        path.write_bytes(mailbox(list(WORDS[:2])))
        library.ingest(str(tmp_path))
        assert found(library, WORDS[1])
        assert not found(library, WORDS[3])
        path.unlink()
        (tmp_path / "other.txt").write_text("a file so that the folder is not empty")
        library.ingest(str(tmp_path))
        assert not found(library, WORDS[1])


def test_a_mailbox_that_was_moved_keeps_its_messages(store: Store, tmp_path: Path) -> None:
    path = tmp_path / "inbox.mbox"
    path.write_bytes(mailbox(list(WORDS)))
    with library_on(store) as library:
        library.ingest(str(tmp_path))
        path.rename(tmp_path / "sent.mbox")
        report = library.ingest(str(tmp_path))
        assert report.done == 0
        assert found(library, WORDS[2]) == {f"sent.mbox#3 On the {WORDS[2]}.eml"}


def test_what_is_inside_of_archives_is_found_at_any_depth(store: Store, tmp_path: Path) -> None:
    mail = EmailMessage()
    mail["Subject"], mail["From"], mail["To"] = "With a file", "a@b", "c@d"
    mail.set_content("See the file.")
    inner = BytesIO()
    with tarfile.open(fileobj=inner, mode="w:gz") as archive:
        info = tarfile.TarInfo("notes/birds.txt")
        info.size = 6
        archive.addfile(info, BytesIO(b"plover"))
    mail.add_attachment(inner.getvalue(), maintype="application", subtype="gzip", filename="notes.tgz")
    with ZipFile(tmp_path / "case.zip", "w") as outer:
        outer.writestr("mail/1.eml", mail.as_bytes())
        outer.writestr("__MACOSX/._1.eml", b"junk")
        outer.writestr("mail/.DS_Store", b"\0\1junk")
    with library_on(store) as library:
        report = library.ingest(str(tmp_path))
        assert (report.done, report.dead) == (4, 0)
        assert found(library, "plover") == {"case.zip#mail/1.eml#notes.tgz#notes/birds.txt"}


def test_an_archive_inside_of_too_many_others_ends_with_a_reason(store: Store, tmp_path: Path) -> None:
    content = b"plover"
    name = "a.txt"
    for _ in range(14):
        packed = BytesIO()
        with ZipFile(packed, "w") as archive:
            archive.writestr(name, content)
        content, name = packed.getvalue(), "a.zip"
    (tmp_path / "a.zip").write_bytes(content)
    with library_on(store) as library:
        report = library.ingest(str(tmp_path))
        assert (report.done, report.dead) == (10, 1)
        (dead,) = store.documents(library.collection.name, state="dead")
        assert "at most 10 are opened" in dead.reason


def test_the_entries_before_the_damage_of_an_archive_are_documents(store: Store, tmp_path: Path) -> None:
    packed = BytesIO()
    with tarfile.open(fileobj=packed, mode="w") as archive:
        for word in WORDS:
            info = tarfile.TarInfo(f"{word}.txt")
            info.size = len(word)
            archive.addfile(info, BytesIO(word.encode()))
    (tmp_path / "a.tar").write_bytes(packed.getvalue()[:2560] + b"\xff" * 512)
    with library_on(store) as library:
        report = library.ingest(str(tmp_path))
        assert report.dead == 1
        assert found(library, WORDS[0]) == {"a.tar#plover.txt"}
        assert found(library, WORDS[1])


def test_two_entries_with_one_name_are_two_documents(store: Store, tmp_path: Path) -> None:
    with ZipFile(tmp_path / "a.zip", "w") as archive:
        archive.writestr("a.txt", "plover")
        with pytest.warns(UserWarning, match="Duplicate"):
            archive.writestr("a.txt", "curlew")
    with library_on(store) as library:
        library.ingest(str(tmp_path))
        assert found(library, "plover") == {"a.zip#a.txt"}
        assert found(library, "curlew") == {"a.zip#a (2).txt"}


def test_an_ingest_killed_inside_a_mailbox_goes_on_at_the_next_message(tmp_path: Path) -> None:
    (tmp_path / "inbox.mbox").write_bytes(mailbox([f"bird {number}" for number in range(240)]))
    killed = kill_again_and_again(tmp_path, kills=3, seed=2)
    assert killed.kills
    assert killed.different == []
    assert killed.parsed_after_commit == []
    assert (killed.pages, killed.dead) == (242, 0)  # two pages of the list, and one for each message


def ordinary_mail() -> bytes:
    mail = EmailMessage()
    mail["Subject"], mail["From"], mail["To"] = "Ordinary", "a@b", "c@d"
    mail.set_content("The plover.")
    mail.add_attachment(b"\x89PNG\r\n\x1a\nlogo", maintype="image", subtype="png", cid="<logo>", filename="logo.png")
    mail.add_attachment(b"RIFF\x10\0\0\0WAVEfmt ", maintype="audio", subtype="wav", filename="call.wav")
    mail.add_attachment(b"-----BEGIN", maintype="application", subtype="pgp-signature", filename="signature.asc")
    mail.add_attachment(bytes(range(256)) * 9, maintype="application", subtype="octet-stream", filename="tool.bin")
    mail.add_attachment("curlew", filename="note.txt")
    return mail.as_bytes()


def test_ordinary_mail_has_no_dead_letters_and_what_is_left_out_is_counted(each_store: Store, tmp_path: Path) -> None:
    (tmp_path / "a.eml").write_bytes(ordinary_mail())
    with library_on(each_store) as library:
        report = library.ingest(str(tmp_path))
        assert (report.done, report.dead) == (2, 0)
        assert found(library, "curlew") == {"a.eml#note.txt"}
        (remark,) = read_remarks(each_store, library.collection.name)
    assert (remark.key, remark.code, remark.skipped) == ("a.eml", "", 4)
    assert "call.wav (a sound or a video)" in remark.reason
    assert "tool.bin" in remark.reason


def test_a_document_without_text_says_why_until_it_has_some(each_store: Store, tmp_path: Path) -> None:
    (tmp_path / "a.pdf").write_bytes(sample_files.pdf([""]))
    (tmp_path / "b.html").write_text("<html><script>x</script></html>")
    (tmp_path / "c.txt").write_text("A plover.")
    with library_on(each_store) as library:
        library.ingest(str(tmp_path))
        remarks = read_remarks(each_store, library.collection.name)
        assert [(one.key, one.code) for one in remarks] == [("a.pdf", "pages_without_text"), ("b.html", "no_text")]
        (tmp_path / "a.pdf").rename(tmp_path / "z.pdf")
        library.ingest(str(tmp_path))
        remarks = read_remarks(each_store, library.collection.name)
        assert [(one.key, one.code) for one in remarks] == [("b.html", "no_text"), ("z.pdf", "pages_without_text")]
        (tmp_path / "z.pdf").write_bytes(sample_files.pdf(["Two curlews."]))
        (tmp_path / "b.html").unlink()
        library.ingest(str(tmp_path))
        assert read_remarks(each_store, library.collection.name) == []
