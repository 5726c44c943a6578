"""Specs of embedders: the texts by which settings name a model, such as `granite`, `hash:64` or `openai:MODEL`."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any

from holdfast.pipelines.rag.embed.protocol import Embedder

if TYPE_CHECKING:
    from holdfast.pipelines.rag.embed.granite import Granite

DEFAULT_EMBEDDER = "granite"
MAX_DIMENSION = 65_536
"""The largest dimension of `hash:N`."""
MAX_TOKENS = {DEFAULT_EMBEDDER: 510}
"""Tokens that a model reads of a text, where that is known: 512 without the start and the end token."""
SERVICES = ("openai", "azure", "ollama")
FREE_EMBEDDERS = (DEFAULT_EMBEDDER, "hash", "ollama")
"""Embedders that cost nothing: their model runs on this machine."""
ENGLISH_EMBEDDERS = (DEFAULT_EMBEDDER,)
"""Embedders whose model was made for English only. Documents in other languages are found by their words."""
CUSTOM_PREFIX = "own:"
"""Settings name an embedder of the user's code as `own:` and its name."""


def language_of_embedder(spec: str) -> str:
    """Return the code of the only language that a model was made for; an empty text if there are several."""
    return "en" if spec in ENGLISH_EMBEDDERS else ""


def is_service(spec: str) -> bool:
    """Return True if a spec names a service."""
    return spec.partition(":")[0] in SERVICES


def is_free(spec: str) -> bool:
    """Return True if a spec names an embedder that costs nothing."""
    return spec.partition(":")[0] in FREE_EMBEDDERS


def is_custom(spec: str) -> bool:
    """Return True if a spec names an embedder of the user's code."""
    return spec.startswith(CUSTOM_PREFIX)


def spec_for(embedder: Embedder, spec: str) -> str:
    """Return the spec by which settings name an embedder: `spec`, if it names one with equal vectors."""
    is_same = not is_custom(spec) and create_embedder(spec).name == embedder.name
    return spec if is_same else CUSTOM_PREFIX + embedder.name


def check_spec(spec: str) -> str:
    """Return a spec if it names an embedder. Nothing is loaded, and no request is made.

    Raises:
        ValueError: The spec names no embedder. The message lists the specs.
    """
    kind, _, model = spec.partition(":")
    if spec == DEFAULT_EMBEDDER or (kind == "hash" and _is_dimension(model or "64")) or (is_service(spec) and model):
        return spec
    raise ValueError(
        f"there is no embedder {spec!r}; use granite, hash:64, openai:MODEL, azure:DEPLOYMENT or ollama:MODEL"
    )


def _is_dimension(text: str) -> bool:
    return text.isdecimal() and len(text) < 6 and 1 <= int(text) <= MAX_DIMENSION


def create_embedder(spec: str = DEFAULT_EMBEDDER, **settings: Any) -> Embedder:
    """Create the embedder that a spec names.

    Args:
        spec: `granite`, `hash:64`, `openai:MODEL`, `azure:DEPLOYMENT` or `ollama:MODEL`. Keys and addresses of services
            come from the environment.
        **settings: Arguments of the class of a service, see `remote_base.HttpEmbedder`.

    Returns:
        The embedder. All callers share one `granite`: its session is large.

    Raises:
        ValueError: The spec names no embedder, or one without settings was given some.

    Example:
        >>> create_embedder("hash:64").embed(["spring tide"]).shape
        (1, 64)
    """
    kind, _, model = check_spec(spec).partition(":")
    if is_service(spec):
        from holdfast.pipelines.rag.embed import remote
        from holdfast.pipelines.rag.embed.remote_base import HttpEmbedder

        classes: dict[str, type[HttpEmbedder]] = {
            "openai": remote.OpenAI,
            "azure": remote.AzureOpenAI,
            "ollama": remote.Ollama,
        }
        return classes[kind](model, **settings)
    if settings:
        raise ValueError(f"the embedder {spec!r} has no settings")
    if kind == DEFAULT_EMBEDDER:
        return _granite()
    from holdfast.pipelines.rag.embed.hashing import HashEmbedder

    return HashEmbedder(int(model or "64"))


@cache
def _granite() -> Granite:
    from holdfast.pipelines.rag.embed.granite import Granite

    return Granite()
