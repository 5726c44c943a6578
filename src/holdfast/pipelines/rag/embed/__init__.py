"""Turn texts into vectors: embedders in this process and behind services.

To add an embedder with a spec of its own, write its class and add it to `specs.check_spec` and `specs.create_embedder`.
"""

from holdfast.pipelines.rag.embed.protocol import Embedder, LocalEmbedder, RemoteEmbedder, is_remote
from holdfast.pipelines.rag.embed.specs import (
    CUSTOM_PREFIX,
    DEFAULT_EMBEDDER,
    MAX_TOKENS,
    check_spec,
    create_embedder,
    is_custom,
    is_free,
    is_service,
    spec_for,
)

__all__ = [
    "CUSTOM_PREFIX",
    "DEFAULT_EMBEDDER",
    "MAX_TOKENS",
    "Embedder",
    "LocalEmbedder",
    "RemoteEmbedder",
    "check_spec",
    "create_embedder",
    "is_custom",
    "is_free",
    "is_remote",
    "is_service",
    "spec_for",
]
