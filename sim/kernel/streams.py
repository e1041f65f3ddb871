"""Named random streams: adding an actor, or a draw in one, moves nobody else's draws.

A stream's seed is a hash of the run's seed and the stream's name, never Python's `hash`.  Only `.random()` and
what Python builds on it without rejection loops over `getrandbits` of varying width is used by the project,
so that streams agree across Python versions.
"""

from __future__ import annotations

import hashlib
import random


def stream(seed: int, name: str) -> random.Random:
    """A generator of its own for `name` (e.g. "node-17#1/probes") in the run with this seed."""
    digest = hashlib.blake2b(f"{seed}/{name}".encode(), digest_size=16).digest()
    return random.Random(int.from_bytes(digest, "big"))
