"""The OpenAPI document of the simulated metrics server."""

import pytest

from sim.api.openapi.merging import below, used
from sim.app.parts.metrics.openapi import metrics_document
from sim.ident import NAMES


@pytest.mark.parametrize("naming", ["kubernetes", "orch"])
def test_every_definition_is_used_by_a_path_or_belongs_to_a_path(naming):
    names = NAMES[naming]
    made = metrics_document(names)
    pods = f"/apis/{names.group('metrics')}/v1beta1/pods"
    reference = made["paths"][pods]["get"]["responses"]["200"]["schema"]["$ref"]
    assert reference.endswith(".metrics.v1beta1.PodMetricsList")
    assert used(made, made["paths"]) == made["definitions"].keys()
    assert below(made, ("/apis/",)) == made
