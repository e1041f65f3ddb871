"""StorageVersions, and ClusterCIDRs: kinds of versions that are off by default."""

from __future__ import annotations

import pytest

from sim.api.kinds.tables import row
from sim.ident import NAMES
from tests.unit.sim.api.golden_api import Api

VERSIONS = "/apis/internal.apiserver.k8s.io/v1alpha1/storageversions"
RANGES = "/apis/networking.k8s.io/v1alpha1/clustercidrs"


@pytest.fixture(scope="module")
def api() -> Api:
    return Api(alpha=True)


def causes(api: Api, method: str, path: str, body: object) -> list[str]:
    """Field and message of each cause of a refusal."""
    found = api.ask(method, path, body).obj
    return [f"{cause['field']}: {cause['message']}" for cause in found["details"]["causes"]]


def test_storage_version_is_named_after_a_group_and_a_resource(api: Api) -> None:
    assert causes(api, "POST", VERSIONS, {"metadata": {"name": "pods"}}) == [
        'metadata.name: Invalid value: "pods": name must be in the form of <group>.<resource>'
    ]
    made = api.ask("POST", VERSIONS, {"metadata": {"name": "apps.deployments"}, "status": {"x": 1}})
    assert made.code == 201 and made.obj["status"] == {}


def test_status_of_a_storage_version_agrees_with_its_servers(api: Api) -> None:
    api.ask("POST", VERSIONS, {"metadata": {"name": "apps.daemonsets"}})
    server = {"apiServerID": "a", "encodingVersion": "apps/v1", "decodableVersions": ["v2"]}
    condition = {"type": "AllEncodingVersionsEqual", "status": "True", "lastTransitionTime": None}
    status = {"storageVersions": [server], "conditions": [condition]}
    path = f"{VERSIONS}/apps.daemonsets"
    stored = api.ask("GET", path, None).obj
    problems = causes(api, "PUT", f"{path}/status", {**stored, "status": status})
    assert [problem.partition(":")[0] for problem in problems] == [
        "status.storageVersions[0].decodableVersions",
        "status.commonEncodingVersion",
        "status[0].reason",
        "status[0].message",
    ]
    good = {
        "storageVersions": [{**server, "decodableVersions": ["apps/v1"]}],
        "commonEncodingVersion": "apps/v1",
    }
    written = api.ask("PUT", f"{path}/status", {**stored, "status": good}).obj
    resource = api.scheme.resource("storageversions")
    assert row(resource, written, 1_700_000_060_000_000, NAMES["kubernetes"])["cells"] == [
        "apps.daemonsets",
        "apps/v1",
        "a=apps/v1",
        "60s",
    ]


def test_cluster_cidr_has_a_range_with_room_for_its_nodes(api: Api) -> None:
    assert causes(api, "POST", RANGES, {"metadata": {"name": "r"}, "spec": {"perNodeHostBits": 8}}) == [
        "spec: Required value: one or both of `ipv4` and `ipv6` must be specified"
    ]
    spec = {"perNodeHostBits": 9, "ipv4": "10.0.0.0/24", "ipv6": "10.0.0.0/8"}
    assert causes(api, "POST", RANGES, {"metadata": {"name": "r"}, "spec": spec}) == [
        "spec.perNodeHostBits: Invalid value: 9: must be less than or equal to 8",
        'spec.IPv6: Invalid value: "10.0.0.0/8": must be a valid IPv6 CIDR',
    ]


def test_cluster_cidr_is_immutable_and_shows_its_selector(api: Api) -> None:
    term = {"matchExpressions": [{"key": "zone", "operator": "In", "values": ["a", "b"]}]}
    spec = {
        "perNodeHostBits": 8,
        "ipv4": "10.0.0.0/8",
        "nodeSelector": {"nodeSelectorTerms": [term]},
    }
    made = api.ask("POST", RANGES, {"metadata": {"name": "r"}, "spec": spec}).obj
    resource = api.scheme.resource("clustercidrs")
    assert row(resource, made, 1_700_000_060_000_000, NAMES["kubernetes"])["cells"] == [
        "r",
        "8",
        "10.0.0.0/8",
        "<none>",
        "60s",
        "MatchExpressions: [{zone In [a b]}]",
    ]
    changed = {**made, "spec": {**spec, "ipv4": "11.0.0.0/8"}}
    assert causes(api, "PUT", f"{RANGES}/r", changed) == [
        'spec.ipv4: Invalid value: "11.0.0.0/8": field is immutable'
    ]
