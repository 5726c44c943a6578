"""Azure Document Intelligence: pages one by one, waits for a busy service, and the size limit of a page."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from holdfast import Reject, RetryLater
from holdfast.pipelines.rag.extract.azure_reader import BACKOFF, MAX_TRIES_AWAY, AzureReader
from holdfast.pipelines.rag.extract.azure_reader import KEY as KEY_VARIABLE
from holdfast.pipelines.rag.extract.page_images import MAX_PAGE_BYTES, parts_of, reduced_jpeg
from holdfast.pipelines.rag.http_errors import MissingSetting, ServiceError
from holdfast.pipelines.rag.values import Page
from tests.support.services.document_intelligence import KEY, DocumentService
from tests.support.services.local_service import Answer, HttpRequest, busy


@pytest.fixture
def service() -> Iterator[DocumentService]:
    with DocumentService() as running:
        yield running


@pytest.fixture
def slept() -> list[float]:
    return []


@pytest.fixture
def reader(service: DocumentService, slept: list[float]) -> AzureReader:
    return AzureReader(service.url, KEY, sleep=slept.append)


def pdf(path: Path, texts: list[str], picture: bytes = b"") -> Path:
    """Write a PDF: one page for each text, with a picture on the first page if one is given."""
    objects = [b"<< /Type /Catalog /Pages 2 0 R >>", b"", b"<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica >>"]
    image = b""
    if picture:
        with Image.open(BytesIO(picture)) as opened:
            head = (
                f"<< /Type /XObject /Subtype /Image /Width {opened.width} /Height {opened.height}"
                f" /ColorSpace /DeviceRGB /BitsPerComponent 8 /Filter /DCTDecode /Length {len(picture)} >>"
            )
        objects.append(head.encode() + b"\nstream\n" + picture + b"\nendstream")
        image = b"/XObject << /P 4 0 R >>"
    kids = []
    for text in texts:
        drawn = f"BT /F 24 Tf 72 700 Td ({text}) Tj ET".encode()
        if image:
            drawn += b" q 500 0 0 500 50 100 cm /P Do Q"
        objects.append(b"<< /Length %d >>\nstream\n%s\nendstream" % (len(drawn), drawn))
        objects.append(
            b"<< /Type /Page /Parent 2 0 R /MediaBox [0 0 612 792] /Resources << /Font << /F 3 0 R >> %s >> "
            b"/Contents %d 0 R >>" % (image, len(objects))
        )
        kids.append(b"%d 0 R" % len(objects))
        image = b""
    objects[1] = b"<< /Type /Pages /Count %d /Kids [%s] >>" % (len(kids), b" ".join(kids))
    out, offsets = b"%PDF-1.4\n", []
    for number, content in enumerate(objects, 1):
        offsets.append(len(out))
        out += b"%d 0 obj\n%s\nendobj\n" % (number, content)
    table = b"".join(b"%010d 00000 n \n" % offset for offset in offsets)
    size = len(objects) + 1
    out += b"xref\n0 %d\n0000000000 65535 f \n%strailer << /Size %d /Root 1 0 R >>\nstartxref\n%d\n%%%%EOF" % (
        size, table, size, len(out),
    )  # fmt: skip
    path.write_bytes(out)
    return path


def noise(width: int, height: int, form: str = "PNG", **options: Any) -> bytes:
    """Return a picture that hardly compresses."""
    pixels = np.random.default_rng(7).integers(0, 256, (height, width, 3), np.uint8)
    out = BytesIO()
    Image.fromarray(pixels).save(out, form, **options)
    return out.getvalue()


def test_pages_come_one_by_one_each_sent_alone(service: DocumentService, reader: AzureReader, tmp_path: Path) -> None:
    pages = reader.pages_of(pdf(tmp_path / "a.pdf", ["one", "two", "three"]))
    assert next(pages) == Page(1, "one", how="azure")
    assert len(service.posts) == 1
    assert list(pages) == [Page(2, "two", how="azure"), Page(3, "three", how="azure")]
    assert ["pages=1&" in asked.path for asked in service.posts] == [True] * 3


def test_a_resumed_document_sends_only_the_remaining_pages(
    service: DocumentService, reader: AzureReader, tmp_path: Path
) -> None:
    path = pdf(tmp_path / "a.pdf", ["one", "two", "three"])
    assert list(reader.pages_of(path, start=2)) == [Page(3, "three", how="azure")]
    assert len(service.posts) == 1
    assert list(reader.pages_of(path, start=3)) == []


def test_several_pages_can_be_sent_together(service: DocumentService, slept: list[float], tmp_path: Path) -> None:
    reader = AzureReader(service.url, KEY, pages_per_call=2, sleep=slept.append)
    pages = list(reader.pages_of(pdf(tmp_path / "a.pdf", ["one", "two", "three"])))
    assert [(page.number, page.text) for page in pages] == [(1, "one"), (2, "two"), (3, "three")]
    assert len(service.posts) == 2


def test_a_small_picture_is_sent_unchanged(service: DocumentService, reader: AzureReader, tmp_path: Path) -> None:
    path = tmp_path / "a.png"
    path.write_bytes(noise(60, 80))
    assert [page.text for page in reader.pages_of(path)] == ["PNG 60x80"]
    assert service.posts[0].body == path.read_bytes()


def test_a_tiff_has_as_many_pages_as_pictures(reader: AzureReader, tmp_path: Path) -> None:
    frames = [Image.new("L", (60 + number, 60)) for number in range(3)]
    frames[0].save(tmp_path / "a.tiff", save_all=True, append_images=frames[1:])
    assert [page.text for page in reader.pages_of(tmp_path / "a.tiff")] == ["JPEG 60x60", "JPEG 61x60", "JPEG 62x60"]
    assert [page.number for page in reader.pages_of(tmp_path / "a.tiff", start=1)] == [2, 3]


def test_a_picture_that_is_too_large_is_reduced(service: DocumentService, reader: AzureReader, tmp_path: Path) -> None:
    path = tmp_path / "a.png"
    path.write_bytes(noise(1500, 1200))
    assert path.stat().st_size > MAX_PAGE_BYTES
    (page,) = reader.pages_of(path)
    assert page.text.startswith("JPEG")
    assert len(service.posts[0].body) <= MAX_PAGE_BYTES


def test_a_pdf_page_that_is_too_large_is_sent_as_a_picture(
    service: DocumentService, reader: AzureReader, tmp_path: Path
) -> None:
    large = noise(2000, 1600, "JPEG", quality=98)
    assert len(large) > MAX_PAGE_BYTES
    path = pdf(tmp_path / "a.pdf", ["one", "two"], picture=large)
    first, second = reader.pages_of(path)
    assert first.text.startswith("JPEG")
    assert second.text == "two"
    assert all(len(asked.body) <= MAX_PAGE_BYTES for asked in service.posts)


@pytest.mark.parametrize("most", [200_000, 40_000, 5_000])
def test_quality_is_reduced_before_size(most: int) -> None:
    with Image.open(BytesIO(noise(400, 300))) as image:
        content = reduced_jpeg(image, most)
    assert len(content) <= most
    with Image.open(BytesIO(content)) as small:
        assert (small.size == (400, 300)) == (most >= 40_000)


def test_transparency_becomes_white() -> None:
    with Image.open(BytesIO(reduced_jpeg(Image.new("RGBA", (60, 60), (0, 0, 0, 0)), MAX_PAGE_BYTES))) as flat:
        assert flat.getpixel((30, 30)) == (255, 255, 255)


def test_a_picture_that_cannot_be_reduced_is_rejected() -> None:
    with Image.open(BytesIO(noise(400, 300))) as image, pytest.raises(Reject, match="cannot be reduced to 300 bytes"):
        reduced_jpeg(image, 300)


def test_the_result_is_polled_until_it_is_ready(
    service: DocumentService, reader: AzureReader, slept: list[float], tmp_path: Path
) -> None:
    service.running = 3
    assert [page.text for page in reader.pages_of(pdf(tmp_path / "a.pdf", ["one"]))] == ["one"]
    assert slept == [0, 2, 2, 2]


@pytest.mark.parametrize("status", [429, 503])
def test_a_busy_service_is_called_again_after_the_requested_wait(
    service: DocumentService, reader: AzureReader, slept: list[float], tmp_path: Path, status: int
) -> None:
    service.queued_answers.extend([busy("7", status=status), busy("3", status=status)])
    assert len(list(reader.pages_of(pdf(tmp_path / "a.pdf", ["one"])))) == 1
    assert slept[:2] == [7, 3]


def test_waits_grow_if_the_service_does_not_request_one(
    service: DocumentService, reader: AzureReader, slept: list[float], tmp_path: Path
) -> None:
    service.queued_answers.extend(busy() for _ in range(4))
    assert len(list(reader.pages_of(pdf(tmp_path / "a.pdf", ["one"])))) == 1
    assert all(2**number / 2 <= wait <= 2**number for number, wait in enumerate(slept[:4]))


def test_a_service_that_stays_busy_postpones_the_document(
    service: DocumentService, reader: AzureReader, tmp_path: Path
) -> None:
    service.queued_answers.extend(busy() for _ in range(20))
    with pytest.raises(RetryLater, match="busy"):
        list(reader.pages_of(pdf(tmp_path / "a.pdf", ["one"])))


def test_a_long_wait_postpones_the_document(
    service: DocumentService, reader: AzureReader, slept: list[float], tmp_path: Path
) -> None:
    service.queued_answers.append(busy("600"))
    with pytest.raises(RetryLater) as put_off:
        list(reader.pages_of(pdf(tmp_path / "a.pdf", ["one"])))
    assert put_off.value.after == timedelta(seconds=600)
    assert slept == []


@pytest.mark.parametrize("trouble", [Answer(500), Answer(502), Answer(cut=True)], ids=["500", "502", "cut"])
def test_a_failed_request_is_tried_again(
    service: DocumentService, reader: AzureReader, tmp_path: Path, trouble: Answer
) -> None:
    service.queued_answers.append(trouble)
    assert [page.text for page in reader.pages_of(pdf(tmp_path / "a.pdf", ["one"]))] == ["one"]


def test_a_service_that_keeps_failing_is_an_error(
    service: DocumentService, reader: AzureReader, tmp_path: Path
) -> None:
    service.queued_answers.extend(Answer(500) for _ in range(20))
    with pytest.raises(ServiceError, match="failed") as error:
        list(reader.pages_of(pdf(tmp_path / "a.pdf", ["one"])))
    assert not error.value.is_outage, "the file may be the reason"


def test_a_busy_service_that_then_fails_is_an_error(
    service: DocumentService, reader: AzureReader, tmp_path: Path
) -> None:
    service.queued_answers.extend([*(busy() for _ in range(MAX_TRIES_AWAY)), *(Answer(cut=True) for _ in range(20))])
    with pytest.raises(ServiceError, match="cannot be reached") as error:
        list(reader.pages_of(pdf(tmp_path / "a.pdf", ["one"])))
    assert error.value.is_outage


def test_a_refused_key_names_the_variable(service: DocumentService, tmp_path: Path) -> None:
    with pytest.raises(ServiceError, match=KEY_VARIABLE) as refused:
        list(AzureReader(service.url, "wrong-key").pages_of(pdf(tmp_path / "a.pdf", ["one"])))
    assert "wrong-key" not in str(refused.value)
    assert refused.value.is_outage


def test_address_and_key_come_from_the_environment(
    service: DocumentService, slept: list[float], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = pdf(tmp_path / "a.pdf", ["one"])
    monkeypatch.setenv("AZURE_DOCUMENT_INTELLIGENCE_ENDPOINT", service.url + "/")
    monkeypatch.setenv(KEY_VARIABLE, KEY)
    assert len(list(AzureReader(sleep=slept.append).pages_of(path))) == 1
    monkeypatch.delenv(KEY_VARIABLE)
    with pytest.raises(MissingSetting, match=KEY_VARIABLE):
        list(AzureReader().pages_of(path))


def test_an_unknown_model_does_not_reject_the_file(service: DocumentService, tmp_path: Path) -> None:
    with pytest.raises(ServiceError, match="ModelNotFound"):
        list(AzureReader(service.url, KEY, model="other").pages_of(pdf(tmp_path / "a.pdf", ["one"])))


def test_a_file_that_the_service_cannot_read_is_rejected_with_its_reason(
    service: DocumentService, reader: AzureReader, tmp_path: Path
) -> None:
    inner = {"code": "InvalidContent", "message": "The file is corrupted."}
    service.queued_answers.append(Answer(400, {"error": {"code": "InvalidRequest", "innererror": inner}}))
    with pytest.raises(Reject, match="The file is corrupted"):
        list(reader.pages_of(pdf(tmp_path / "a.pdf", ["one"])))


def test_a_failed_analysis_has_its_reason(service: DocumentService, reader: AzureReader, tmp_path: Path) -> None:
    def failed(asked: HttpRequest) -> Answer:
        if asked.method == "POST":
            return DocumentService.answer(service, asked)
        return Answer(200, {"status": "failed", "error": {"code": "InternalServerError", "message": "it broke"}})

    service.answer = failed  # type: ignore[method-assign]
    with pytest.raises(ServiceError, match="it broke"):
        list(reader.pages_of(pdf(tmp_path / "a.pdf", ["one"])))


def test_an_analysis_that_never_ends_postpones_the_document(
    service: DocumentService, slept: list[float], tmp_path: Path
) -> None:
    service.running = 1000
    reader = AzureReader(service.url, KEY, max_wait=timedelta(seconds=20), sleep=slept.append)
    with pytest.raises(RetryLater, match="not finished"):
        list(reader.pages_of(pdf(tmp_path / "a.pdf", ["one"])))
    assert sum(slept) <= 22


def test_a_result_on_another_host_is_not_requested(
    service: DocumentService, reader: AzureReader, tmp_path: Path
) -> None:
    with DocumentService() as other:
        service.operation_host = other.url
        with pytest.raises(ServiceError, match="another host"):
            list(reader.pages_of(pdf(tmp_path / "a.pdf", ["one"])))
        assert other.requests == []


@pytest.mark.parametrize(
    ("content", "reason"),
    [(b"", "empty"), (b"plain words", "not a PDF and not a picture"), (b"%PDF-1.4\nbroken", "cannot be opened")],
)
def test_an_unreadable_file_is_rejected_before_it_is_sent(
    service: DocumentService, reader: AzureReader, tmp_path: Path, content: bytes, reason: str
) -> None:
    path = tmp_path / "a"
    path.write_bytes(content)
    with pytest.raises(Reject, match=reason):
        list(reader.pages_of(path))
    assert service.requests == []


def test_pages_that_are_too_large_together_are_sent_one_by_one(tmp_path: Path) -> None:
    path = pdf(tmp_path / "a.pdf", ["one", "two", "three"])
    alone = [len(content) for _, content in parts_of(path, start=0, pages_per_file=1, max_bytes=MAX_PAGE_BYTES)]
    assert [count for count, _ in parts_of(path, start=0, pages_per_file=3, max_bytes=max(alone))] == [1, 1, 1]
    assert [count for count, _ in parts_of(path, start=0, pages_per_file=3, max_bytes=MAX_PAGE_BYTES)] == [3]


def test_the_wait_between_tries_grows_to_a_minute() -> None:
    assert BACKOFF.wait(51) <= timedelta(minutes=1)


@pytest.mark.parametrize(
    "result",
    [
        [],
        {"content": 7, "pages": []},
        {"pages": {"a": 1}},
        {"pages": [None]},
        {"content": "tides", "pages": [{"pageNumber": 1, "spans": [{"offset": "x", "length": 1}]}]},
        {"content": "tides", "pages": [{"pageNumber": 1, "spans": [{}]}]},
        {"pages": [{"pageNumber": "1", "lines": [{"content": None}]}]},
    ],
)
def test_an_invalid_result_is_an_error_or_empty_text(
    service: DocumentService, reader: AzureReader, tmp_path: Path, result: Any
) -> None:
    def lies(asked: HttpRequest) -> Answer:
        if asked.method == "POST":
            return DocumentService.answer(service, asked)
        return Answer(200, {"status": "succeeded", "analyzeResult": result})

    service.answer = lies  # type: ignore[method-assign]
    try:
        assert [page.text for page in reader.pages_of(pdf(tmp_path / "a.pdf", ["one"]))] == [""]
        assert result == []
    except ServiceError as error:
        assert "invalid result" in str(error)  # noqa: PT017


def test_an_infinite_wait_postpones_the_document(service: DocumentService, reader: AzureReader, tmp_path: Path) -> None:
    service.queued_answers.append(busy("1e300"))
    with pytest.raises(RetryLater, match="is busy") as later:
        list(reader.pages_of(pdf(tmp_path / "a.pdf", ["one"])))
    assert later.value.after == timedelta(days=365)
