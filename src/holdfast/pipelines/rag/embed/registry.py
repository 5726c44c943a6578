"""Create the embedders of a collection: those that its settings name, and the one that the user's code passes."""

from __future__ import annotations

from holdfast.pipelines.rag.collections.settings import Collection, CollectionSettings, custom_embedder_required
from holdfast.pipelines.rag.embed.protocol import Embedder
from holdfast.pipelines.rag.embed.rate_limiter import RateLimit, SharedRateLimiter
from holdfast.pipelines.rag.embed.specs import create_embedder, is_custom, is_service, spec_for
from holdfast.pipelines.rag.index.values import EmbeddingModel
from holdfast.stores.protocol import Store


class Embedders:
    """The embedders of a store by their specs. Each is created once.

    Args:
        store: The store whose workers share rate limits.
        custom: An embedder of the user's code, or None.
    """

    def __init__(self, store: Store, custom: Embedder | None) -> None:
        self._store = store
        self._custom = custom
        self._created: dict[tuple[str, RateLimit], Embedder] = {}

    def spec(self, settings: CollectionSettings) -> str:
        """Return the spec for settings: that of the custom embedder if there is one."""
        return spec_for(self._custom, settings.embedder) if self._custom else settings.embedder

    def can_create(self, collection: Collection, spec: str) -> bool:
        """Return True if this process can create an embedder. A custom one must be passed by code."""
        return not is_custom(spec) or (self._custom is not None and spec == collection.settings.embedder)

    def get(self, collection: Collection, spec: str) -> Embedder:
        """Return an embedder. A service keeps to the rate limit of the collection.

        Raises:
            CustomEmbedderRequired: The embedder is one of the user's code, and none was passed.
        """
        if self._custom is not None and spec == collection.settings.embedder:
            return self._custom
        if is_custom(spec):
            raise custom_embedder_required(collection.name, spec)
        rate = collection.settings.rate
        if (spec, rate) not in self._created:
            self._created[spec, rate] = self._create(spec, rate)
        return self._created[spec, rate]

    def _create(self, spec: str, rate: RateLimit) -> Embedder:
        if rate == RateLimit() or not is_service(spec):
            return create_embedder(spec)
        return create_embedder(spec, rate_limiter=SharedRateLimiter(self._store, spec, rate=rate))


def model_of(embedder: Embedder) -> EmbeddingModel:
    """Return the model of an embedder's vectors."""
    return EmbeddingModel(embedder.name, embedder.dimension)
