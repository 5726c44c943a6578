"""The models of a collection: those that its settings name, and the one that somebody's own code gives."""

from __future__ import annotations

from holdfast.pipelines.rag.collections import Collection, Settings, not_here
from holdfast.pipelines.rag.embedders import Embedder, embedder_named, is_own, is_service, spec_of
from holdfast.pipelines.rag.embedders.rate import Rate
from holdfast.pipelines.rag.index import Model
from holdfast.stores.protocol import Store


class Models:
    """Gives embedders by their names, each made once. `given` is somebody's own, which settings name as such."""

    def __init__(self, store: Store, given: Embedder | None) -> None:
        self._store = store
        self._given = given
        self._made: dict[tuple[str, Rate], Embedder] = {}

    def spec(self, settings: Settings) -> str:
        """Gives how settings name the embedder: who has another one must not take what was given for theirs."""
        return spec_of(self._given, settings.embedder) if self._given else settings.embedder

    def has(self, collection: Collection, spec: str) -> bool:
        """Answers whether an embedder can be had here: one of somebody's own has to be given."""
        return not is_own(spec) or (self._given is not None and spec == collection.settings.embedder)

    def named(self, collection: Collection, spec: str) -> Embedder:
        """Gives an embedder, metered where a service stands behind it and its rate is known."""
        if self._given is not None and spec == collection.settings.embedder:
            return self._given
        if is_own(spec):
            raise not_here(collection.name, spec)
        rate = collection.settings.rate
        if (spec, rate) not in self._made:
            self._made[spec, rate] = self._make(spec, rate)
        return self._made[spec, rate]

    def _make(self, spec: str, rate: Rate) -> Embedder:
        if rate == Rate() or not is_service(spec):
            return embedder_named(spec)
        from holdfast.pipelines.rag.embedders.meter import Meter

        return embedder_named(spec, meter=Meter(self._store, spec, rate=rate))


def model_of(embedder: Embedder) -> Model:
    """Gives whose vectors an embedder makes."""
    return Model(embedder.name, embedder.dimension)
