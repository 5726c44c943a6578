# /// script
# requires-python = ">=3.11"
# dependencies = ["openpyxl==3.1.5", "pillow==13.0.0", "python-docx==1.2.0", "reportlab==5.1.0"]
# ///
"""Build the sample documents in examples/harbour: what `./hf demo` makes searchable.

    uv run scripts/build_harbour_documents.py

The texts are in scripts/harbour_texts.toml. Run this again only if they change. The files have no time of the build, so
the same text makes the same file.
"""

from __future__ import annotations

import random
import tomllib
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from email.message import EmailMessage
from email.policy import SMTP
from io import BytesIO
from pathlib import Path
from textwrap import wrap
from typing import Any
from zipfile import ZIP_DEFLATED, ZipFile, ZipInfo

import docx.document
import openpyxl
import reportlab
from PIL import Image, ImageDraw, ImageFont
from reportlab.lib.pagesizes import A5
from reportlab.lib.styles import getSampleStyleSheet
from reportlab.platypus import Flowable, PageBreak, Paragraph, SimpleDocTemplate

TARGET = Path(__file__).parents[1] / "examples" / "harbour"
TEXTS: dict[str, Any] = tomllib.loads(Path(__file__).with_name("harbour_texts.toml").read_text(encoding="utf-8"))
BUILT = datetime(2025, 6, 1, tzinfo=UTC)
FONTS = Path(reportlab.__file__).parent / "fonts"
DPI = 150
PAGE = (int(5.83 * DPI), int(8.27 * DPI))
"""An A5 page, in pixels."""
MARGIN, LINE = 90, 34
COLUMNS = 54
TILT = 0.6
"""Degrees by which a scanned page may be turned."""
SPECKS = 40


def scanned_page(heading: str, paragraphs: Sequence[str], seed: int) -> Image.Image:
    """Return a page as a scanner sees it: slightly turned, with specks, in black and white."""
    page = Image.new("L", PAGE, 255)
    draw = ImageDraw.Draw(page)
    plain = ImageFont.truetype(FONTS / "Vera.ttf", 23)
    draw.text((MARGIN, MARGIN), heading, fill=0, font=ImageFont.truetype(FONTS / "VeraBd.ttf", 28))
    top = MARGIN + 2 * LINE
    for paragraph in paragraphs:
        for line in wrap(paragraph, COLUMNS):
            draw.text((MARGIN, top), line, fill=0, font=plain)
            top += LINE
        top += LINE // 2
    chance = random.Random(seed)  # noqa: S311 - the same specks each time
    page = page.rotate(chance.uniform(-TILT, TILT), Image.Resampling.BICUBIC, fillcolor=255)
    draw = ImageDraw.Draw(page)
    for _ in range(SPECKS):
        x, y = chance.randrange(PAGE[0]), chance.randrange(PAGE[1])
        draw.rectangle((x, y, x + 1, y + 1), fill=0)
    return page.point(lambda grey: 255 * (grey > 150)).convert("1")


def paragraphs_of(text: str) -> list[str]:
    """Return the paragraphs of a text. Line ends inside of them mean nothing."""
    return [" ".join(paragraph.split()) for paragraph in text.strip().split("\n\n")]


def survey_pages() -> list[tuple[str, list[str]]]:
    """Return heading and paragraphs of each page of the survey."""
    survey = TEXTS["survey"]
    pages = [(survey["title"], paragraphs_of(survey["summary"]))]
    pages.append(("How the survey was made", paragraphs_of(survey["method"])))
    for number, section in enumerate(survey["sections"], len(pages) + 1):
        cost = f"{section['pounds']:,} pounds" if section["pounds"] else "none"
        lines = [f"Page {number}. Grade {section['grade']}.", f"Finding: {section['finding']}"]
        pages.append((section["place"], [*lines, f"Work: {section['work']}", f"Cost: {cost}."]))
    total = sum(section["pounds"] for section in survey["sections"])
    closing = [f"All work together costs {total:,} pounds, without tax.", "Saltmarsh, 14 April 2025", "Ines Marlow"]
    return [*pages, ("Total", closing)]


def write_survey(path: Path) -> None:
    """Write a PDF that has only scanned pages."""
    pages = survey_pages()
    first, *rest = [scanned_page(heading, paragraphs, seed) for seed, (heading, paragraphs) in enumerate(pages)]
    dates = {"creationDate": BUILT.timetuple(), "modDate": BUILT.timetuple()}
    first.save(path, save_all=True, append_images=rest, resolution=DPI, title="Survey of the quays", **dates)


def pdf_with_text(document: Mapping[str, Any]) -> bytes:
    """Return a PDF with one section on each page."""
    styles = getSampleStyleSheet()
    story: list[Flowable] = []
    for section in document["sections"]:
        story.append(Paragraph(section["heading"], styles["Heading2"]))
        story += [Paragraph(paragraph, styles["BodyText"]) for paragraph in paragraphs_of(section["text"])]
        story.append(PageBreak())
    out = BytesIO()
    SimpleDocTemplate(out, pagesize=A5, title=document["title"], author=TEXTS["company"], invariant=1).build(story)
    return out.getvalue()


def write_contract(path: Path, contract: Mapping[str, Any]) -> None:
    """Write a Word document with headings."""
    document = word_document()
    document.add_paragraph(contract["title"], style="Title")
    for section in contract["sections"]:
        document.add_paragraph(section["heading"], style="Heading 1")
        for paragraph in paragraphs_of(section["text"]):
            document.add_paragraph(paragraph)
    document.save(path)
    forget_times(path)


def write_letter(path: Path, text: str) -> None:
    """Write a Word document without headings."""
    document = word_document()
    for paragraph in paragraphs_of(text):
        document.add_paragraph(paragraph)
    document.save(path)
    forget_times(path)


def word_document() -> docx.document.Document:
    """Return an empty Word document."""
    document = docx.Document()
    document.core_properties.author = TEXTS["company"]
    document.core_properties.created = document.core_properties.modified = BUILT.replace(tzinfo=None)
    return document


def write_sheet(path: Path) -> None:
    """Write a workbook with one sheet."""
    book = openpyxl.Workbook()
    book.properties.created = BUILT.replace(tzinfo=None)
    sheet = book.active
    sheet.title = TEXTS["dues"]["title"]
    for row in TEXTS["dues"]["rows"]:
        sheet.append(row)
    book.save(path)
    forget_times(path)


def forget_times(path: Path) -> None:
    """Write a zip file again with a fixed time for each part."""
    with ZipFile(path) as archive:
        parts = {name: archive.read(name) for name in archive.namelist()}
    if path.suffix == ".xlsx":  # openpyxl writes the time of the save, whatever the properties say
        core = parts["docProps/core.xml"].decode()
        head, _, tail = core.partition("<dcterms:modified")
        parts["docProps/core.xml"] = (head + tail.partition("</dcterms:modified>")[2]).encode()
    with ZipFile(path, "w", ZIP_DEFLATED) as archive:
        for name, content in parts.items():
            archive.writestr(ZipInfo(name, BUILT.timetuple()[:6]), content, ZIP_DEFLATED)


def message(name: str) -> EmailMessage:
    """Return a message without attachments."""
    mail = TEXTS["mails"][name]
    built = EmailMessage(policy=SMTP)
    built["From"] = mail["from"]
    built["To"] = "Peter Lindqvist <office@saltmarsh-harbour.example>"
    built["Subject"] = mail["subject"]
    built["Date"] = mail["date"]
    built["Message-ID"] = f"<{name}@example.org>"
    built.set_content(mail["text"])
    return built


def write_mails(folder: Path) -> None:
    """Write two messages. One of them has an attachment."""
    offer = message("insurance_renewal")
    attached = pdf_with_text(TEXTS["insurance_offer"])
    offer.add_attachment(attached, maintype="application", subtype="pdf", filename="insurance_offer.pdf")
    offer.set_boundary("----saltmarsh-harbour----")
    (folder / "insurance_renewal.eml").write_bytes(offer.as_bytes())
    (folder / "fender_delivery.eml").write_bytes(message("fender_delivery").as_bytes())


def write_all(target: Path) -> None:
    """Write all documents into a folder."""
    for folder in ("contracts", "letters", "mail", "minutes", "notices", "survey"):
        (target / folder).mkdir(parents=True, exist_ok=True)
    write_survey(target / "survey" / "survey_of_the_quays.pdf")
    (target / "contracts" / "pilot_launch_charter.pdf").write_bytes(pdf_with_text(TEXTS["charter"]))
    write_contract(target / "contracts" / "dredging.docx", TEXTS["dredging"])
    write_letter(target / "letters" / "crane_noise.docx", TEXTS["letters"]["crane_noise"])
    heading, *paragraphs = paragraphs_of(TEXTS["letters"]["storm_claim"])
    scanned_page(heading, paragraphs, seed=99).save(target / "letters" / "storm_claim.png", dpi=(DPI, DPI))
    write_mails(target / "mail")
    for name, text in TEXTS["minutes"].items():
        (target / "minutes" / f"{name}.md").write_text(text, encoding="utf-8")
    (target / "notices" / "fog_signal.html").write_text(TEXTS["notices"]["fog_signal"], encoding="utf-8")
    (target / "notices" / "opening_hours.txt").write_text(TEXTS["notices"]["opening_hours"], encoding="utf-8")
    write_sheet(target / "notices" / "harbour_dues.xlsx")


if __name__ == "__main__":
    write_all(TARGET)
    files = [path for path in sorted(TARGET.rglob("*")) if path.is_file()]
    for path in files:
        print(f"{path.relative_to(TARGET)}: {path.stat().st_size:,} bytes")
    print(f"{len(files)} files, {sum(path.stat().st_size for path in files):,} bytes")
