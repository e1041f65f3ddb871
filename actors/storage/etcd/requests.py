"""Operations of a store to requests of etcd, and its responses to answers.

Turns a write with an expected revision into a transaction that compares the last revision of the
key, and reads it where that fails; the revision of the transaction is that of the object.

Mirrors  kubernetes v1.25 apiserver pkg/storage/etcd3/store.go (Create, GuaranteedUpdate,
         conditionalDelete).
Differs  a deletion returns the last state with it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from sim.wire.etcd.messages import range_of

TXN, RANGE, WATCH, GRANT = "kv/txn", "kv/range", "watch", "lease/grant"
COMPACT = "kv/compaction"
COMPACTED_KEY = b"compact_rev_key"


def _compared(key: bytes, expect: int | None) -> list[Mapping[str, Any]]:
    if expect is None:
        return []
    return [{"key": key, "target": "MOD", "result": "EQUAL", "mod_revision": expect}]


def put(key: bytes, value: bytes, expect: int | None, lease: int = 0) -> Mapping[str, Any]:
    """Write a key if its last write has the expected revision (0: it does not exist)."""
    written: dict[str, Any] = {"key": key, "value": value}
    if lease:
        written["lease"] = lease
    return {
        "compare": _compared(key, expect),
        "success": [{"request_put": written}],
        "failure": [{"request_range": range_of(key)}],
    }


def delete(key: bytes, expect: int | None) -> Mapping[str, Any]:
    """Delete a key if its last write has the expected revision (None: if it exists)."""
    exists = {"key": key, "target": "VERSION", "result": "GREATER", "version": 0}
    return {
        "compare": _compared(key, expect) or [exists],
        "success": [{"request_delete_range": {"key": key, "prev_kv": True}}],
        "failure": [{"request_range": range_of(key)}],
    }


def now() -> Mapping[str, Any]:
    """Ask for the present revision."""
    return range_of(COMPACTED_KEY, limit=1, keys_only=True)


def settle(version: int, rev: int) -> Mapping[str, Any]:
    """Take the round of compactions after `version`, with the revision to compact to."""
    compare = {"key": COMPACTED_KEY, "target": "VERSION", "result": "EQUAL", "version": version}
    return {
        "compare": [compare],
        "success": [{"request_put": {"key": COMPACTED_KEY, "value": str(rev).encode()}}],
        "failure": [{"request_range": range_of(COMPACTED_KEY)}],
    }
