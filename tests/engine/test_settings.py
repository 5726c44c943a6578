"""The settings of a worker, and the keywords that set them."""

from __future__ import annotations

from typing import get_type_hints

from holdfast.engine.settings import WorkerOptions, WorkerSettings


def test_every_setting_is_a_keyword_of_the_same_type() -> None:
    assert get_type_hints(WorkerOptions) == get_type_hints(WorkerSettings)
