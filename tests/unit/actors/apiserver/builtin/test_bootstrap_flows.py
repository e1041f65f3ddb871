"""How a server corrects FlowSchemas and priority levels that differ from its own."""

from __future__ import annotations

import pytest

from actors.apiserver.builtin.bootstrap_flows import as_bool, ensured, is_unwanted
from sim.api.types import Obj
from sim.ident import NAMES

N = NAMES["kubernetes"]
ANNOTATION = "apf.kubernetes.io/autoupdate-spec"


def _level(value: str | None, shares: int = 1, name: str = "workload-low", generation: int = 1) -> Obj:
    annotations = {} if value is None else {ANNOTATION: value}
    return {
        "metadata": {"name": name, "generation": generation, "annotations": annotations},
        "spec": {"shares": shares},
    }


@pytest.mark.parametrize(
    ("found", "spec", "annotation"),
    [
        (_level("true", 2), 1, "true"),
        (_level("1", 2), 1, "1"),
        (_level("false", 2), None, ""),
        (_level(None, 2), 1, "true"),
        (_level(None, 2, generation=2), 2, "false"),
        (_level("maybe", 1), 1, "true"),
        (_level("false", 2, "exempt"), 1, "true"),
        (_level("false", 1, "catch-all"), 1, "true"),
        (_level("true"), None, ""),
    ],
)
def test_object_is_corrected_as_its_annotation_says(found: Obj, spec: int | None, annotation: str):
    made = ensured(found, _level("true", name=found["metadata"]["name"]), N)
    if spec is None:
        assert made is None
    else:
        assert made is not None
        assert made["spec"]["shares"] == spec
        assert made["metadata"]["annotations"][ANNOTATION] == annotation


@pytest.mark.parametrize(
    ("value", "name", "unwanted"),
    [("true", "old", True), ("true", "probes", False), ("false", "old", False), (None, "old", False)],
)
def test_only_an_object_of_another_version_is_unwanted(value: str | None, name: str, unwanted: bool):
    assert is_unwanted(_level(value, name=name), ["probes"], N) is unwanted


@pytest.mark.parametrize(
    ("text", "value"),
    [("t", True), ("TRUE", True), ("0", False), ("False", False), ("yes", None), ("", None)],
)
def test_text_is_read_as_go_reads_a_bool(text: str, value: bool | None):
    assert as_bool(text) is value
