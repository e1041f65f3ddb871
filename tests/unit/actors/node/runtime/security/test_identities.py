"""The user, groups and capabilities of a container."""

from __future__ import annotations

from typing import Any

import pytest

from actors.node.runtime.security.identities import ALL_CAPABILITIES, DEFAULT_CAPABILITIES, identity_of


def test_a_containers_user_replaces_its_pods_and_groups_are_its_pods() -> None:
    whole = {"runAsUser": 1000, "runAsGroup": 3000, "fsGroup": 2000, "supplementalGroups": [7, 2000]}
    found = identity_of({"spec": {"securityContext": whole}}, {"securityContext": {"runAsUser": 1001}})
    assert (found.uid, found.gid, found.groups, found.may("KILL")) == (1001, 3000, (7, 2000), False)


@pytest.mark.parametrize(
    ("own", "capabilities"),
    [
        ({}, DEFAULT_CAPABILITIES),
        ({"privileged": True}, ALL_CAPABILITIES),
        (
            {"capabilities": {"drop": ["ALL"], "add": ["NET_BIND_SERVICE", "CAP_CHOWN"]}},
            {"NET_BIND_SERVICE", "CHOWN"},
        ),
        ({"capabilities": {"add": ["ALL"], "drop": ["KILL"]}}, ALL_CAPABILITIES - {"KILL"}),
        ({"capabilities": {"add": ["NO_SUCH"], "drop": ["KILL"]}}, DEFAULT_CAPABILITIES - {"KILL"}),
    ],
)
def test_capabilities_are_the_runtimes_with_those_added_and_dropped(
    own: dict[str, Any], capabilities: Any
) -> None:
    assert identity_of({"spec": {}}, {"securityContext": own}).capabilities == capabilities
