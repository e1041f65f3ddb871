"""The storage process and its stores.

One log of commits with one revision each is the only truth of a cluster. The process adds what a
real one has: latency, faults, members and compaction.
"""

from actors.storage.actor import Storage
from actors.storage.memory import MemoryStore

__all__ = ["MemoryStore", "Storage"]
