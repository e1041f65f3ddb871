"""What LimitRanges give to containers, and refuse."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from sim.api.admission.base import Attributes, Denial
from sim.api.admission.plugins.limit_ranger import LimitRanger
from sim.api.scheme.scheme import Scheme
from sim.api.types import Obj
from sim.ident import NAMES

NAMING = NAMES["kubernetes"]
CREATE_POD = Attributes(operation="create", resource=Scheme(NAMING).resource("pods"), namespace="d", name="p")


class Ranges:
    """A namespace with one LimitRange."""

    def __init__(self, *limits: Obj) -> None:
        self._ranges = [{"metadata": {"name": "l"}, "spec": {"limits": list(limits)}}]

    def get(self, resource: str, namespace: str, name: str) -> Obj | None:
        return None

    def list(self, resource: str, namespace: str = "") -> Sequence[Obj]:
        return self._ranges if resource == "limitranges" else []


def limited(spec: Obj, *limits: Obj) -> Obj | Denial:
    """A pod after both passes, under one LimitRange."""
    view = Ranges(*limits)
    ranger = LimitRanger(NAMING)
    made = ranger.mutate(CREATE_POD, {"metadata": {"name": "p"}, "spec": spec}, view)
    assert not isinstance(made, Denial)
    return ranger.validate(CREATE_POD, made, view) or made


def asking(name: str = "c", **resources: Obj) -> Obj:
    return {"name": name, "resources": resources}


def test_containers_get_the_limits_and_requests_that_they_leave_out() -> None:
    limit = {"type": "Container", "default": {"cpu": "1", "memory": "1Gi"}, "defaultRequest": {"cpu": "500m"}}
    spec = {"containers": [asking(limits={"cpu": "2"})], "initContainers": [asking("i")]}
    made = limited(spec, limit)
    assert not isinstance(made, Denial)
    assert made["spec"]["containers"][0]["resources"] == {
        "limits": {"cpu": "2", "memory": "1Gi"},
        "requests": {"cpu": "500m"},
    }
    assert made["metadata"]["annotations"][NAMING.annotation_limit_ranger] == (
        "LimitRanger plugin set: cpu request for container c; memory limit for container c; "
        "cpu request for init container i; cpu, memory limit for init container i"
    )


@pytest.mark.parametrize(
    ("limit", "resources", "text"),
    [
        (
            {"type": "Container", "min": {"cpu": "1"}},
            {},
            "minimum cpu usage per Container is 1.  No request is specified",
        ),
        (
            {"type": "Container", "max": {"cpu": "1"}},
            {"limits": {"cpu": "2"}},
            "maximum cpu usage per Container is 1, but limit is 2",
        ),
        (
            {"type": "Container", "maxLimitRequestRatio": {"cpu": "1500m"}},
            {"limits": {"cpu": "2"}, "requests": {"cpu": "1"}},
            "cpu max limit to request ratio per Container is 1500m, but provided ratio is 2.000000",
        ),
        (
            {"type": "Pod", "max": {"memory": "1Gi"}, "min": {"cpu": "1"}},
            {"limits": {"memory": "2Gi"}, "requests": {"cpu": "1m"}},
            "[minimum cpu usage per Pod is 1, but request is 1m, "
            "maximum memory usage per Pod is 1Gi, but limit is 2147483648]",
        ),
    ],
)
def test_what_is_out_of_bounds_is_refused(limit: Obj, resources: Obj, text: str) -> None:
    refused = limited({"containers": [asking(**resources)]}, limit)
    assert isinstance(refused, Denial) and refused.message == f'pods "p" is forbidden: {text}'


def test_amount_that_one_container_leaves_out_has_no_sum_in_the_pod() -> None:
    limit = {"type": "Pod", "max": {"cpu": "2"}}
    spec = {"containers": [asking(limits={"cpu": "3"}), asking()]}
    refused = limited(spec, limit)
    assert isinstance(refused, Denial) and refused.message.endswith("is 2.  No limit is specified")
    refused = limited({**spec, "initContainers": [asking(limits={"cpu": "4"})]}, limit)
    assert isinstance(refused, Denial) and refused.message.endswith("is 2, but limit is 4")


def test_pods_of_one_template_come_out_of_a_limit_range_as_one_spec() -> None:
    view = Ranges({"type": "Container", "default": {"cpu": "1"}})
    ranger, spec = LimitRanger(NAMING), {"containers": [asking()]}
    made = [ranger.mutate(CREATE_POD, {"metadata": {"name": n}, "spec": spec}, view) for n in "ab"]
    assert made[0]["spec"] is made[1]["spec"]  # type: ignore[index]
