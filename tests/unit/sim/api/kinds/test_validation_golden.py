"""Recorded answers as oracles: refusals of POST, PUT and PATCH by code, reason, message and causes,
and what is applied.
"""

from __future__ import annotations

import pytest

from tests.unit.sim.api.golden_api import GOLDEN, differences, transcripts

# (agreeing steps, compared steps): only ever raised.  What is missing is named beside it.
AGREED = {
    "40-patch.json": (
        236,
        251,
    ),  # kinds not served; a ConfigMap with a missing owner, which the collector deletes here
    "20-validation-metadata.json": (144, 144),
    "20-validation-pods.json": (193, 194),
    "20-validation-workloads.json": (133, 134),  # the DaemonSet's annotation that is no number
    "20-validation-cluster.json": (76, 76),
    "20-validation-network.json": (127, 127),
    "20-validation-storage.json": (111, 111),
    # A clock that is stopped here; a uid worded by the recorder.
    "41-apply.json": (262, 265),
    "20-validation-types.json": (106, 107),
    # reviews and evictions, which the server answers before the verbs; two 500s worded otherwise, a
    # patched revision
    "20-validation-rare.json": (350, 352),
    # lists; what waits for a definition to be established, or to be gone
    "60-crd.json": (213, 218),
}


@pytest.mark.skipif(not GOLDEN.exists(), reason="the recordings are not beside the checkout")
@pytest.mark.parametrize("file", sorted(AGREED))
@pytest.mark.slow
def test_recorded_refusals_are_ours_too(file: str) -> None:
    agreed, wrong = 0, []
    for transcript in transcripts(file):
        for asked, wanted, got in differences(transcript):
            if wanted == got:
                agreed += 1
            else:
                wrong.append(f"{transcript['id']}: {asked[:120]}\n  wanted {wanted}\n  got    {got}")
    floor, _ = AGREED[file]
    assert agreed >= floor, "\n".join(wrong)
