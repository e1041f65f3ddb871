"""Validation of claims."""

from __future__ import annotations

from tests.unit.sim.api.kinds.samples import made, updated


def test_claim_with_changed_mode_or_negative_capacity_is_refused() -> None:
    claim = made("persistentvolumeclaims")
    block = {**claim, "spec": {**claim["spec"], "volumeMode": "Block"}}
    assert updated("persistentvolumeclaims", block, claim)[1:] == [
        'volumeMode: Invalid value: "Block": field is immutable'
    ]
    negative = {**claim, "status": {"capacity": {"storage": "-1Ki", "x": "1"}}}
    assert updated("persistentvolumeclaims", negative, claim, "status") == [
        "status.capacity[storage]: Invalid value: -1024: must be a valid resource quantity"
    ]
