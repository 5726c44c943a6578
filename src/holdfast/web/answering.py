"""Answers: JSON, and errors as a sentence with a status."""

from __future__ import annotations

from typing import Any

import msgspec
from starlette.responses import Response


class Json(Response):
    """An answer in JSON, written as the command line writes it."""

    media_type = "application/json"

    def render(self, content: Any) -> bytes:
        return msgspec.json.encode(content)


def refusal(status: int, sentence: str) -> Response:
    """Gives an answer that says what is wrong."""
    return Json({"error": sentence}, status_code=status)
