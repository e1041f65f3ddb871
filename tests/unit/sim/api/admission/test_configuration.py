"""AdmissionConfiguration documents: what they mean and how they are refused."""

from __future__ import annotations

from typing import Any

import pytest

from sim.api.admission.configuration import Configuration, read_configuration
from sim.api.admission.plugins.event_rate_limit import EventLimit
from sim.api.admission.plugins.pods.security import Exemptions, Standard
from sim.ident import NAMES

NAMING = NAMES["kubernetes"]
POD_SECURITY = {"apiVersion": "pod-security.admission.config.k8s.io/v1", "kind": "PodSecurityConfiguration"}
EVENTS = {"apiVersion": "eventratelimit.admission.k8s.io/v1alpha1", "kind": "Configuration"}
LIMIT = {"type": "Server", "qps": 1, "burst": 2}


def read(*plugins: Any, **more: Any) -> Configuration:
    document = {
        "apiVersion": "apiserver.config.k8s.io/v1",
        "kind": "AdmissionConfiguration",
        "plugins": [*plugins],
        **more,
    }
    return read_configuration(document, NAMING)


def of(name: str, **configuration: Any) -> dict[str, Any]:
    return {"name": name, "configuration": configuration}


def test_document_without_plugins_changes_nothing() -> None:
    assert read() == Configuration()
    assert read({"name": "PodSecurity"}) == Configuration()


def test_pod_security_has_defaults_and_exemptions() -> None:
    found = read(
        of(
            "PodSecurity",
            **POD_SECURITY,
            defaults={"enforce": "baseline", "enforce-version": "v1.24"},
            exemptions={"usernames": ["ann"], "namespaces": ["kube-system"], "runtimeClasses": ["r"]},
        )
    ).pod_security
    assert found.defaults["enforce"] == Standard("baseline", "v1.24")
    assert found.defaults["warn"] == Standard()
    assert found.exemptions == Exemptions(("ann",), ("kube-system",), ("r",))


def test_other_plugins_have_configurations_of_their_own() -> None:
    tolerations = {
        "apiVersion": "podtolerationrestriction.admission.k8s.io/v1alpha1",
        "kind": "Configuration",
    }
    quota = {"apiVersion": "apiserver.config.k8s.io/v1", "kind": "ResourceQuotaConfiguration"}
    found = read(
        of("PodNodeSelector", podNodeSelectorPluginConfig={"d": "a=b"}),
        of("PodTolerationRestriction", **tolerations, default=[{"key": "a"}]),
        of("EventRateLimit", **EVENTS, limits=[LIMIT]),
        of("ResourceQuota", **quota, limitedResources=[{"resource": "pods", "matchContains": ["pods"]}]),
    )
    assert found.node_selectors == {"d": "a=b"}
    assert found.tolerations.default == ({"key": "a"},)
    assert found.event_limits == (EventLimit("Server", 1, 2),)
    assert [(each.resource, each.match_contains) for each in found.limited] == [("pods", ("pods",))]


@pytest.mark.parametrize(
    ("plugin", "says"),
    [
        (
            of("PodSecurty", **POD_SECURITY),
            "plugins[0].name: no plugin 'PodSecurty' takes a configuration; did you mean",
        ),
        (of("AlwaysPullImages"), "plugins[0].name: no plugin 'AlwaysPullImages' takes a configuration"),
        ({"name": "PodSecurity", "path": "x.yaml"}, "plugins[0].path: the file was not read"),
        ({"name": "PodSecurity", "file": "x.yaml"}, "plugins[0]: Object contains unknown field `file`"),
        (
            of("PodSecurity", kind="X", apiVersion="v1"),
            "plugins[0].configuration: is v1 X, wanted PodSecurityConfig",
        ),
        (
            of("PodSecurity", **POD_SECURITY, defaults={"enforce": "strict"}),
            "defaults.enforce: is 'strict', must be one of",
        ),
        (of("PodSecurity", **POD_SECURITY, defaults={"warn-version": "2"}), "defaults.warn-version: is '2'"),
        (
            of("PodSecurity", **POD_SECURITY, exemptions={"namespaces": ["A"]}),
            "exemptions.namespaces[0]: is 'A'",
        ),
        (of("PodSecurity", **POD_SECURITY, exemptions={"usernames": [""]}), "username must not be empty"),
        (
            of("PodSecurity", **POD_SECURITY, exemptions={"usernames": ["a", "a"]}),
            "usernames[1]: 'a' is there twice",
        ),
        (of("PodNodeSelector", podNodeSelectorPluginConfig={"d": "a"}), "Config.d: invalid selector: [a]"),
        (of("EventRateLimit", **EVENTS, limits=[]), "configuration.limits: must not be empty"),
        (
            of("EventRateLimit", **EVENTS, limits=[{**LIMIT, "qps": 0}]),
            "limits[0].qps: is 0, must be positive",
        ),
        (
            of("EventRateLimit", **EVENTS, limits=[{**LIMIT, "type": "Any"}]),
            "configuration.limits[0].type: Invalid enum value",
        ),
    ],
)
def test_mistake_is_refused_with_its_place(plugin: dict[str, Any], says: str) -> None:
    with pytest.raises(ValueError) as refused:
        read(plugin)
    assert says in str(refused.value)


def test_other_document_is_refused() -> None:
    with pytest.raises(
        ValueError, match=r"wanted AdmissionConfiguration of apiserver\.config\.k8s\.io/v1 or"
    ):
        read(kind="Configuration")
