"""The memory store: the reference. Read it first; the others do the same in SQL.

It is chosen, never fallen back to: it forgets everything with the process. `tables` says what is kept, and the four
roles say what the verbs of `stores/protocol.py` do with it, each in a few lines of Python.
"""

from holdfast.stores.memory.store import MemoryStore

__all__ = ["MemoryStore"]
