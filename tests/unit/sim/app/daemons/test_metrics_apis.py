"""Which metrics APIs a controller manager asks, by the list of groups of its API server."""

from __future__ import annotations

import pytest

from actors.controllers.shared.metrics_api import CUSTOM, EXTERNAL, RESOURCE
from sim.app.daemons.metrics_apis import ListedMetrics
from sim.ident import NAMES


def listed(**versions: list[str]) -> ListedMetrics:
    found = ListedMetrics(NAMES["kubernetes"])
    groups = [
        {"name": f"{name.replace('_', '.')}.k8s.io", "versions": [{"version": each} for each in given]}
        for name, given in versions.items()
    ]
    found.take({"groups": groups})
    return found


@pytest.mark.parametrize(
    ("versions", "custom"),
    [
        ({"custom_metrics": ["v1beta1", "v1beta2"]}, "v1beta2"),
        ({"custom_metrics": ["v1beta1"]}, "v1beta1"),
        ({"custom_metrics": ["v1"]}, ""),
        ({}, ""),
    ],
)
def test_the_preferred_version_that_is_listed_is_asked(versions: dict[str, list[str]], custom: str) -> None:
    assert listed(**versions).elsewhere(CUSTOM) == custom


def test_an_api_that_is_gone_is_asked_no_longer() -> None:
    found = listed(metrics=["v1beta1"], external_metrics=["v1beta1"])
    assert [found.elsewhere(each) for each in (RESOURCE, EXTERNAL)] == ["v1beta1", "v1beta1"]
    found.take({"groups": []})
    assert found.elsewhere(RESOURCE) == ""
    text = found.resource([], "cpu", "", 0)
    assert text == (
        "unable to fetch metrics from resource metrics API:"
        " the server could not find the requested resource (get pods.metrics.k8s.io)"
    )
