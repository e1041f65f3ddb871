"""Generated names and uids."""

from __future__ import annotations

from random import Random
from uuid import UUID

from sim.api.generated_names import ALPHABET, generated_name, new_uid


def test_generated_names_fit_and_uids_are_version_four() -> None:
    bits = Random(1).getrandbits
    name = generated_name("a" * 70, bits)
    assert len(name) == 63 and all(c in ALPHABET for c in name[58:])
    uids = [new_uid(bits) for _ in range(50)]
    assert len(set(uids)) == 50
    assert all(UUID(uid).version == 4 and str(UUID(uid)) == uid for uid in uids)
