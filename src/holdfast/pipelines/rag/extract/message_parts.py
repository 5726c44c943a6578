"""Decide which parts of a message become documents: not signatures, sounds and small pictures in the text."""

from __future__ import annotations

import mimetypes
from pathlib import Path
from tempfile import TemporaryDirectory

from holdfast.core.errors import Reject
from holdfast.pipelines.rag.extract.file_type import UnsupportedType, detect_file_type
from holdfast.pipelines.rag.values import Attachment

SIGNATURES = {
    "application/pgp-signature",
    "application/pgp-keys",
    "application/pkcs7-signature",
    "application/x-pkcs7-signature",
}
SIGNATURE_SUFFIXES = {".p7s", ".sig", ".asc"}
SMALL_PICTURE = 20_000
"""Bytes. Pictures in the text of a message that are smaller are logos and lines. Larger ones may be of text."""


def reason_to_skip(attachment: Attachment) -> str:
    """Return why a part of a message is left out; an empty text if it becomes a document.

    Args:
        attachment: The part.
    """
    guessed = attachment.media_type or mimetypes.guess_type(attachment.name)[0] or ""
    if guessed in SIGNATURES or Path(attachment.name).suffix.lower() in SIGNATURE_SUFFIXES:
        return "a signature"
    if guessed.startswith(("audio/", "video/")):
        return "a sound or a video"
    if attachment.inline and len(attachment.content) < SMALL_PICTURE:
        return "a small picture in the text"
    return _why_unsupported(attachment)


def _why_unsupported(attachment: Attachment) -> str:
    """Return what a part is if no parser reads such files. What is broken or encrypted becomes a document."""
    with TemporaryDirectory(prefix="holdfast-") as folder:
        path = Path(folder) / f"part{Path(attachment.name).suffix[:20]}"
        path.write_bytes(attachment.content)
        try:
            detect_file_type(path)
        except UnsupportedType as error:
            return str(error)
        except Reject:
            return ""
    return ""
