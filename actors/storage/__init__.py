"""The storage process and its stores."""

from actors.storage.actor import Storage
from actors.storage.memory import MemoryStore

__all__ = ["MemoryStore", "Storage"]
