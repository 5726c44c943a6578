"""E-mails: their page and their attachments. Malformed messages do not fail."""

from __future__ import annotations

import tempfile
from email.message import EmailMessage
from email.parser import BytesParser
from email.policy import default
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from holdfast.core.errors import Reject
from holdfast.pipelines.rag.extract.limits import ExtractLimits
from holdfast.pipelines.rag.extract.parsers import attachments_of, pages_of
from holdfast.pipelines.rag.extract.readers import local_path
from tests.support import sample_files


def letter(subject: str = "Tides", body: str = "High at noon.") -> EmailMessage:
    message = EmailMessage()
    message["From"] = "Ada <ada@example.org>"
    message["To"] = "bob@example.org"
    message["Subject"] = subject
    message.set_content(body)
    return message


def kept(folder: Path, content: bytes | EmailMessage) -> Path:
    return sample_files.write_file(folder / "a.eml", content if isinstance(content, bytes) else content.as_bytes())


def test_a_message_is_its_headers_and_its_body(tmp_path: Path) -> None:
    [page] = pages_of(kept(tmp_path, letter("Flut um zwölf")))
    assert page.text == "From: Ada <ada@example.org>\nTo: bob@example.org\nSubject: Flut um zwölf\n\nHigh at noon."
    assert page.label == "Flut um zwölf"


def test_plain_text_is_preferred_to_html(tmp_path: Path) -> None:
    message = letter()
    message.add_alternative("<p>Low at six.</p>", subtype="html")
    [page] = pages_of(kept(tmp_path, message))
    assert "High at noon." in page.text
    assert "Low" not in page.text


def test_html_alone_is_read_as_text(tmp_path: Path) -> None:
    message = letter()
    message.set_content("<p>Low at <b>six</b>.</p><script>x</script>", subtype="html")
    [page] = pages_of(kept(tmp_path, message))
    assert page.text.endswith("\n\nLow at six.")


def test_attachments_have_unique_names(tmp_path: Path) -> None:
    message = letter()
    message.add_attachment(b"one", maintype="application", subtype="pdf", filename="../../tide.pdf")
    message.add_attachment(b"two", maintype="application", subtype="pdf", filename="tide.pdf")
    message.add_attachment(b"three", maintype="image", subtype="png")
    message.add_attachment(letter("Inner"))
    path = kept(tmp_path, message)
    carried = {one.name: one.content for one in attachments_of(path)}
    assert carried["tide.pdf"] == b"one"
    assert carried["tide (2).pdf"] == b"two"
    assert carried["attachment.png"] == b"three"
    [inner] = pages_of(sample_files.write_file(tmp_path / "inner.eml", carried["Inner.eml"]))
    assert inner.label == "Inner"
    [page] = pages_of(path)
    assert page.text.endswith("High at noon.")


def test_too_many_attachments_are_refused(tmp_path: Path) -> None:
    message = letter()
    for _ in range(3):
        message.add_attachment(b"x", maintype="application", subtype="pdf", filename="x.pdf")
    with pytest.raises(Reject, match="more than 2 attachments"):
        list(attachments_of(kept(tmp_path, message), limits=ExtractLimits(attachments=2)))


def test_a_file_that_is_no_message_has_no_attachments(tmp_path: Path) -> None:
    assert not list(attachments_of(sample_files.write_file(tmp_path / "a.txt", b"words")))


@pytest.mark.parametrize(
    ("source", "said"),
    [
        (b"From: a@b\nTo: c@d\nSubject: zw\xf6lf\n\nx", "Subject: zwölf"),
        (b"From: a@b\nTo: c@d\nSubject: zw\xc3\xb6lf\n\nx", "Subject: zwölf"),
        (b"From: a@b\nTo: c@d\nSubject: =?no-such?Q?abc?=\n\nx", "abc"),
        (b"From: <<<>@@\nTo: ;;,,\nMIME-Version: 1.0\n\nx", "x"),
        (b"From: a@b\nTo: c@d\nContent-Type: text/plain; charset=nowhere\n\nzw\xf6lf", "zwölf"),
        (b"From: a@b\nTo: c@d\nContent-Transfer-Encoding: base64\n\n!!!not base64", "From: a@b"),
        (b"From: a@b\nTo: c@d\nContent-Type: multipart/mixed\n\n--x\n\nlost boundary", "lost boundary"),
        (b"From: a@b\nTo: c@d\nDate: the 50th of May\n\nx", "Date: the 50th of May"),
    ],
)
def test_malformed_messages_are_read_as_far_as_possible(tmp_path: Path, source: bytes, said: str) -> None:
    [page] = pages_of(kept(tmp_path, source))
    assert said in page.text


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    st.lists(
        st.sampled_from([b"\xf6", b"=?utf-8?B?", b"?=", b'"', b"\r\n ", b"\n--x", b"\n\n", b";", b"<", b"@", b"x"])
    )
)
def test_no_header_or_part_makes_a_message_fail(tmp_path: Path, noise: list[bytes]) -> None:
    middle = b"".join(noise)
    source = (
        b"From: a" + middle + b"\nTo: c@d\nContent-Type: multipart/mixed; boundary=x" + middle + b"\n\n--x" + middle
    )
    path = kept(tmp_path, source)
    assert list(pages_of(path, kind="eml"))
    assert all(one.name for one in attachments_of(path, kind="eml"))


def test_a_message_that_is_nested_too_deeply_is_refused(tmp_path: Path) -> None:
    lines = [b"From: a@b", b"To: c@d"]
    for number in range(5000):
        lines += [b"Content-Type: multipart/mixed; boundary=b%d" % number, b"", b"--b%d" % number]
    with pytest.raises(Reject, match="too deeply"):
        list(pages_of(kept(tmp_path, b"\n".join(lines))))


@pytest.mark.parametrize("levels", [200, 300, 500, 2000])
def test_deeply_nested_messages_are_read_or_refused(tmp_path: Path, levels: int) -> None:
    level = b"From: a@b\nSubject: tides\nMIME-Version: 1.0\nContent-Type: message/rfc822\n\n"
    path = kept(tmp_path, level * levels + b"From: a@b\n\nthe last one")
    for read in (pages_of, attachments_of):
        try:
            assert list(read(path, kind="eml"))
        except Reject as refused:
            assert "nested too deeply" in str(refused)  # noqa: PT017 - how deep is too deep, Python says


def outlook(subject: str, extra: sample_files.Tree | None = None, header: int = 32, **more: str) -> sample_files.Tree:
    values: dict[int, str | bytes] = {0x37: subject, 0x0C1A: "Ada", 0x5D01: "ada@example.org", 0x0E04: "Bob"}
    values[0x1000] = more.get("body", "High at noon.")
    return {**sample_files.properties(values, header), **(extra or {})}


def test_an_outlook_message_is_its_headers_and_its_body(tmp_path: Path) -> None:
    [page] = pages_of(sample_files.write_file(tmp_path / "a.msg", sample_files.ole(outlook("Tides"))))
    assert page.text == "From: Ada <ada@example.org>\nTo: Bob\nSubject: Tides\n\nHigh at noon."
    assert page.label == "Tides"


def test_an_outlook_message_with_html_alone_is_read_as_text(tmp_path: Path) -> None:
    made = sample_files.ole(sample_files.properties({0x37: "Tides", 0x1013: b"<p>Low at six.</p>"}, 32))
    [page] = pages_of(sample_files.write_file(tmp_path / "a.msg", made))
    assert page.text == "Subject: Tides\n\nLow at six."


def test_an_outlook_message_has_attached_files_and_messages(tmp_path: Path) -> None:
    inner = {"__substg1.0_3701000D": outlook("Inner", header=24), **sample_files.properties({}, 8)}
    tree = outlook(
        "Tides",
        {
            "__attach_version1.0_#00000000": sample_files.properties({0x3707: "tide.pdf", 0x3701: b"x" * 9000}, 8),
            "__attach_version1.0_#00000001": inner,
        },
    )
    carried = {
        one.name: one.content
        for one in attachments_of(sample_files.write_file(tmp_path / "a.msg", sample_files.ole(tree)))
    }
    assert carried["tide.pdf"] == b"x" * 9000
    message = BytesParser(policy=default).parsebytes(carried["Inner.eml"])
    assert message["Subject"] == "Inner"
    assert "High at noon." in message.get_content()


def test_a_truncated_outlook_message_is_refused(tmp_path: Path) -> None:
    made = sample_files.ole(outlook("Tides", body="word " * 5000))
    with pytest.raises(Reject, match="broken"):
        list(pages_of(sample_files.write_file(tmp_path / "a.msg", made[: len(made) // 2])))


def test_a_header_with_deeply_nested_comments_is_left_unparsed(tmp_path: Path) -> None:
    nest = b"(" * 900
    [page] = pages_of(kept(tmp_path, b"From: " + nest + b"\nTo: b\nContent-Disposition: " + nest + b"\n\ntides"))
    assert page.text.startswith("From: ((((")
    assert page.text.endswith("tides")


def test_a_message_to_a_million_recipients_is_read_in_time(tmp_path: Path) -> None:
    pages = list(pages_of(kept(tmp_path, b"From: a@b\nTo: " + b"c@example.org, " * 1_500_000 + b"\n\ntides")))
    assert pages[-1].text.endswith("tides")


@pytest.mark.parametrize("charset", ["punycode", "idna", "unicode_escape"])
def test_an_encoding_that_is_not_for_texts_is_not_used(tmp_path: Path, charset: str) -> None:
    body = b"tides " * 200_000 + b"-" + b"tides " * 200_000
    head = f"From: a@b\nTo: c@d\nContent-Type: text/plain; charset={charset}\n\n".encode()
    pages = list(pages_of(kept(tmp_path, head + body)))
    assert "tides tides" in pages[0].text


def test_a_very_long_content_type_is_read_in_time(tmp_path: Path) -> None:
    for kind in (b"a " * 1_000_000, b"text/plain; " + b"a=b; " * 500_000, b"text/plain; " + b'"' * 1_000_000):
        pages = list(pages_of(kept(tmp_path, b"From: a@b\nTo: c@d\nContent-Type: " + kind + b"\n\ntides")))
        assert pages[-1].text.endswith("tides")


def test_a_malformed_content_type_is_left_unparsed(tmp_path: Path) -> None:
    head = b"From: =?utf-8?q?D=C3=A9?= <a@b>\nTo: c@d\nContent-Type: text/plain; name*=u\x00\x00%8e''%2%ac.pdf\n\ntides"
    [page] = pages_of(kept(tmp_path, head), kind="eml")
    assert page.text == "From: Dé <a@b>\nTo: c@d\n\ntides"


def test_an_outlook_message_with_sectors_beyond_all_memory_is_broken(tmp_path: Path) -> None:
    content = bytearray(sample_files.ole(sample_files.properties({0x0037: "Tides", 0x1000: "text"}, 32)))
    content[32:34] = b"\x40\x00"  # the size of small sectors, as a power of two
    with pytest.raises(Reject, match="broken"):
        list(pages_of(sample_files.write_file(tmp_path / "a.msg", bytes(content))))
    with pytest.raises(Reject, match="broken"):
        list(pages_of(tmp_path / "a.msg", kind="msg"))


@pytest.mark.parametrize(
    "name", ["..", ".", "../../..", "/", "/etc/passwd", "..\\..\\boot.ini", "a/../../b", "\x00", "~", "", "é" * 150]
)
def test_no_name_of_an_attachment_leads_to_another_folder(tmp_path: Path, name: str) -> None:
    message = letter("Hostile")
    message.add_attachment(b"content", maintype="text", subtype="plain", filename=name or None)
    path = kept(tmp_path, message)
    (attached,) = attachments_of(path)
    assert attached.name not in ("", ".", "..")
    assert Path(attached.name).name == attached.name
    with local_path({"name": "a", "location": str(path), "inside": [0]}) as extracted:
        assert extracted.read_bytes().strip() == b"content"
        assert extracted.resolve().is_relative_to(tempfile.gettempdir())
