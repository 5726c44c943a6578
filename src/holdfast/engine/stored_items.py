"""Read what earlier steps of a document kept: from the store, or from memory when this worker has just committed it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from msgspec import Struct

from holdfast.core.codec import Kept
from holdfast.core.document import decided_at_gate, decided_at_step
from holdfast.core.errors import ItemDamaged
from holdfast.core.integrity import KeptState, StepItems
from holdfast.core.model import Claim, Decision, Item, Plan
from holdfast.core.pipeline import Pipeline
from holdfast.core.plan import Shape
from holdfast.engine.item_cache import CacheBudget, ItemCache
from holdfast.stores.protocol import Store


class StoreReader(Struct):
    """Read the items of one document. Items that are in the cache are not read from the store."""

    store: Store
    plan: Plan
    claim: Claim
    cache: ItemCache | None = None

    def next_position(self, step: str) -> int:
        known = self.cache.next_position(step) if self.cache else None
        return self.store.next_position(*self._where(step)) if known is None else known

    def read(self, step: str, start: int, stop: int) -> Sequence[tuple[int, Kept]]:
        known = self.cache.read(step, start, stop) if self.cache else None
        if known is not None:
            return known
        try:
            return self.store.read(*self._where(step), start, stop)
        except ItemDamaged as bad:  # the store knows only the numbers of the step and the document
            raise ItemDamaged(bad.why, position=bad.position, step=step, document=self.claim.key) from bad

    def count_kept(self) -> Mapping[str, StepItems]:
        """Count what each step of the document kept."""
        return self.store.count_kept(self.plan, self.claim)

    def cache_items(self, items: Sequence[Item], budget: CacheBudget) -> None:
        """Add items that were just committed to the cache, if the budget allows it."""
        if self.cache is None:
            begun = self.claim.checkpoint
            self.cache = ItemCache(budget, begun=None if begun.cursor is None else begun.step)
        self.cache.add(items)

    def drop_cache(self) -> None:
        """Read everything from the store from now on."""
        cache, self.cache = self.cache, None
        if cache is not None:
            cache.release()

    def rewound(self, claim: Claim) -> None:
        """Read with the claim of a new generation. Cached items belong to the old one."""
        self.claim = claim
        self.drop_cache()

    def decision(self, step: str) -> Decision | None:
        decided = decided_at_gate if step in self.plan.gates else decided_at_step
        return decided(self.store.journal(self.claim.document_id), step, self._generation_of(step))

    def _where(self, step: str) -> tuple[int, int, int]:
        return self.claim.document_id, self._generation_of(step), self.plan.step_ids[step]

    def _generation_of(self, step: str) -> int:
        return (self.claim.reuses or {}).get(step, self.claim.checkpoint.generation)


class PlansOfDocuments:
    """Find the plan under which the earlier steps of a document were done. Each is read from the store once."""

    def __init__(self, pipeline: Pipeline, store: Store, plan: Plan) -> None:
        self._store = store
        self._names = plan.names
        self._known = {plan.plan_id: pipeline.shape()}

    def of(self, kept: KeptState | None) -> Shape | None:
        """Return the shape of the plan. Return None for a document that has not moved."""
        if kept is None:
            return None
        if kept.plan_id not in self._known:
            found = self._store.shape_of(kept.plan_id, names=self._names)
            self._known[kept.plan_id] = found or Shape("", ())  # nothing is known about what it did
        return self._known[kept.plan_id]
