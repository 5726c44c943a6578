"""Embedders: texts in, vectors of length one out. Local models compute; services are asked.

A local model is called from the worker's threads: `embed` of a `LocalEmbedder` uses the core it is called on. A
`RemoteEmbedder` also has `embed_async`, so that one loop can wait for many answers at once, and puts the texts of
concurrent callers into one request. Who has no loop, such as a search from the command line, calls `embed` of either.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import TYPE_CHECKING, Any, Protocol, TypeGuard

if TYPE_CHECKING:
    import numpy as np

    from holdfast.pipelines.rag.embedders.granite import Granite

DEFAULT = "granite"
LARGEST = 65_536
"""So many numbers a vector may have that is made here."""
READS = {DEFAULT: 510}
"""How many tokens of a text a model reads, where that is known: 512 with the two marks that it adds."""
SERVICES = ("openai", "azure", "ollama")
OWN = "own:"
"""How a collection is told to have an embedder that only somebody's own code knows; its name follows."""

__all__ = ["DEFAULT", "Embedder", "LocalEmbedder", "RemoteEmbedder", "embedder_named", "is_remote", "is_service"]


class LocalEmbedder(Protocol):
    """A model. `name` is its identity: vectors of equal names can be compared. Safe to share between threads."""

    @property
    def name(self) -> str:
        """The model's identity, such as granite-30m."""

    @property
    def dimension(self) -> int:
        """How many numbers a vector has."""

    @property
    def window(self) -> int:
        """How many texts it likes in one call."""

    def embed(self, texts: Sequence[str]) -> np.ndarray:
        """Gives a float32 row of length one for each text."""

    def embed_query(self, text: str) -> np.ndarray:
        """Gives the vector of a question."""


class RemoteEmbedder(LocalEmbedder, Protocol):
    """A model behind a service."""

    async def embed_async(self, texts: Sequence[str]) -> np.ndarray:
        """Gives a float32 row of length one for each text, from any event loop."""


Embedder = LocalEmbedder | RemoteEmbedder


def is_remote(embedder: Embedder) -> TypeGuard[RemoteEmbedder]:
    """Answers whether a service stands behind it. Asks its class: its `dimension` may have to be asked for."""
    return hasattr(type(embedder), "embed_async")


def is_service(spec: str) -> bool:
    """Answers whether a spec names a service."""
    return spec.partition(":")[0] in SERVICES


def is_own(spec: str) -> bool:
    """Answers whether a spec names an embedder that only somebody's own code knows."""
    return spec.startswith(OWN)


def spec_of(embedder: Embedder, spec: str) -> str:
    """Gives how a collection is told that it has this embedder: `spec`, if that names one with equal vectors."""
    same = not is_own(spec) and embedder_named(spec).name == embedder.name
    return spec if same else OWN + embedder.name


def checked(spec: str) -> str:
    """Gives a spec that names an embedder. Nothing is loaded for it, and no service asked."""
    kind, _, which = spec.partition(":")
    if spec == "granite" or (kind == "hash" and _is_dimension(which or "64")) or (is_service(spec) and which):
        return spec
    raise ValueError(
        f"there is no embedder {spec!r}; there are granite, hash:64, openai:MODEL, azure:DEPLOYMENT and ollama:MODEL"
    )


def _is_dimension(text: str) -> bool:
    return text.isdecimal() and len(text) < 6 and 1 <= int(text) <= LARGEST


def embedder_named(spec: str = DEFAULT, **settings: Any) -> Embedder:
    """Gives the embedder that a spec such as `granite`, `hash:64` or `ollama:nomic-embed-text` names.

    Services are `openai:MODEL`, `azure:DEPLOYMENT` and `ollama:MODEL`; their keys and addresses come from the
    environment, and `settings` are those of their classes.
    """
    kind, _, which = checked(spec).partition(":")
    if is_service(spec):
        from holdfast.pipelines.rag.embedders import services
        from holdfast.pipelines.rag.embedders.service import Service

        made: dict[str, type[Service]] = {
            "openai": services.OpenAI,
            "azure": services.AzureOpenAI,
            "ollama": services.Ollama,
        }
        return made[kind](which, **settings)
    if settings:
        raise ValueError(f"the embedder {spec!r} has no settings")
    if kind == "granite":
        return _granite()
    from holdfast.pipelines.rag.embedders.hashing import Hashing

    return Hashing(int(which or "64"))


@cache
def _granite() -> Granite:
    """One for the process: its session is shared by all who ask."""
    from holdfast.pipelines.rag.embedders.granite import Granite

    return Granite()
