"""Defaults of pods, and their class of service."""

from __future__ import annotations

from typing import Any

import pytest

from sim.api.kinds.core.pod.kind import qos_class
from sim.api.kinds.defaults import apply_defaults
from sim.api.scheme.scheme import Scheme
from sim.ident import NAMES

SCHEME = Scheme(NAMES["kubernetes"])


def default(kind, obj):
    return apply_defaults(SCHEME.resource(kind), obj)


def test_pod_gets_the_defaults_of_upstream():
    pod = default(
        "pods", {"spec": {"containers": [{"name": "c", "image": "i", "ports": [{"containerPort": 80}]}]}}
    )
    assert pod["spec"] == {
        "containers": [
            {
                "name": "c",
                "image": "i",
                "imagePullPolicy": "Always",
                "ports": [{"containerPort": 80, "protocol": "TCP"}],
                "resources": {},
                "terminationMessagePath": "/dev/termination-log",
                "terminationMessagePolicy": "File",
            }
        ],
        "dnsPolicy": "ClusterFirst",
        "enableServiceLinks": True,
        "restartPolicy": "Always",
        "schedulerName": "default-scheduler",
        "securityContext": {},
        "terminationGracePeriodSeconds": 30,
    }


@pytest.mark.parametrize(
    ("resources", "wanted"),
    [
        ([{}], "BestEffort"),
        ([{"requests": {"cpu": "1"}}], "Burstable"),
        (
            [{"limits": {"cpu": "1", "memory": "1Gi"}, "requests": {"cpu": "1000m", "memory": "1Gi"}}],
            "Guaranteed",
        ),
        (
            [{"limits": {"cpu": "1", "memory": "1Gi"}, "requests": {"cpu": "1", "memory": "1Gi"}}, {}],
            "Burstable",
        ),
        ([{"requests": {"storage": "1"}}], "BestEffort"),
    ],
)
def test_qos_class_follows_requests_and_limits(resources: list[dict[str, Any]], wanted: str) -> None:
    assert qos_class({"containers": [{"resources": r} for r in resources]}) == wanted
