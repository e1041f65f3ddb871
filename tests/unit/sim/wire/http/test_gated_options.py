"""Writes that need a feature which is off are refused before their body is read."""

from __future__ import annotations

import pytest

from sim.api.scheme.scheme import Scheme
from sim.ident import NAMES
from sim.options.features.gates import DRY_RUN, SERVER_SIDE_APPLY
from sim.wire.http.options import BadOption, check_gates
from sim.wire.http.routing import Target

N = NAMES["kubernetes"]
PODS = Scheme(N).resource("pods")


@pytest.mark.parametrize("query", ["dryRun=All", "dryRun=X", "dryRun="])
def test_any_dry_run_is_refused_while_the_feature_is_off(query: str) -> None:
    target = Target(PODS, "create", "n")
    check_gates(N, target, "", query, ())
    check_gates(N, Target(PODS, "get", "n", "p"), "", query, (DRY_RUN,))
    with pytest.raises(BadOption) as refused:
        check_gates(N, target, "", query, (DRY_RUN,))
    assert refused.value.body["message"] == "the dryRun feature is disabled"


def test_apply_is_refused_as_an_unknown_form_while_the_feature_is_off() -> None:
    target = Target(PODS, "patch", "n", "p")
    check_gates(N, target, N.media_apply_patch, "", ())
    with pytest.raises(BadOption) as refused:
        check_gates(N, target, N.media_apply_patch, "dryRun=X", (SERVER_SIDE_APPLY, DRY_RUN))
    assert refused.value.body["code"] == 415
