"""Specs of embedders: what a text says about the embedder that it names."""

from __future__ import annotations

import pytest

from holdfast.pipelines.rag.embed import is_free


@pytest.mark.parametrize(
    ("spec", "free"),
    [
        ("granite", True),
        ("hash", True),
        ("hash:64", True),
        ("ollama:nomic-embed-text", True),
        ("openai:text-embedding-3-small", False),
        ("azure:my-deployment", False),
        ("own:my-model", False),
    ],
)
def test_only_models_on_this_machine_are_free(spec: str, free: bool) -> None:
    assert is_free(spec) is free
