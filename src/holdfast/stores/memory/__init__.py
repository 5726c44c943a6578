"""The memory store. It is gone when its process ends, so it is used only if a URL names it.

It does in plain Python what the other stores do in SQL. The conformance suite runs it in lockstep with them. `tables`
has the rows; one module for each role has the verbs of `holdfast.stores.protocol`.
"""

from holdfast.stores.memory.store import MemoryStore

__all__ = ["MemoryStore"]
