"""Optional plugins that change or refuse pods."""

from __future__ import annotations

import json
from typing import Any

import pytest

from sim.api.admission.base import Denial
from sim.api.admission.plugins.always import AlwaysPullImages
from sim.api.admission.plugins.pods.denials import LimitPodHardAntiAffinityTopology, SecurityContextDeny
from sim.api.admission.plugins.pods.node_selector import PodNodeSelector
from sim.api.admission.plugins.pods.tolerations import (
    ExtendedResourceToleration,
    PodTolerationRestriction,
    TolerationLimits,
)
from sim.api.scheduling import merged_tolerations
from sim.api.types import Obj
from sim.ident import NAMES
from tests.unit.sim.api.admission.test_chain import FakeView, asks, pod

NAMING = NAMES["kubernetes"]


def namespace(**annotations: str) -> FakeView:
    noted = {f"scheduler.alpha.kubernetes.io/{key}": value for key, value in annotations.items()}
    return FakeView(namespaces=[{"metadata": {"name": "d", "annotations": noted}}])


def changed(plugin: Any, obj: Obj, view: FakeView | None = None) -> Obj:
    result = plugin.mutate(asks("pods", name="p"), obj, view or FakeView())
    assert not isinstance(result, Denial), result
    return result


def refused(plugin: Any, obj: Obj, view: FakeView | None = None) -> tuple[int, str]:
    result = plugin.mutate(asks("pods", name="p"), obj, view or FakeView())
    assert isinstance(result, Denial)
    return result.code, result.message


# --- AlwaysPullImages -----------------------------------------------------------------------------


def test_every_container_is_always_pulled() -> None:
    given = pod(
        initContainers=[{"name": "i", "image": "i"}], ephemeralContainers=[{"name": "e", "image": "i"}]
    )
    made = changed(AlwaysPullImages(), given)
    for kind in ("containers", "initContainers", "ephemeralContainers"):
        assert [each["imagePullPolicy"] for each in made["spec"][kind]] == ["Always"]
    assert changed(AlwaysPullImages(), made) is made
    assert "imagePullPolicy" not in given["spec"]["containers"][0]


def test_update_without_new_images_keeps_its_policies() -> None:
    old, new = pod(), pod(priority=1)
    plugin, asked = AlwaysPullImages(), asks("pods", "update", name="p", old=old)
    assert plugin.mutate(asked, new, FakeView()) is new
    assert plugin.validate(asked, new, FakeView()) is None
    other = pod(containers=[{"name": "c", "image": "other"}])
    assert plugin.mutate(asked, other, FakeView()) is not other


def test_policy_that_was_changed_back_is_refused_with_all_places() -> None:
    containers = [{"name": name, "image": "i", "imagePullPolicy": "Never"} for name in "ab"]
    denial = AlwaysPullImages().validate(asks("pods", name="p"), pod(containers=containers), FakeView())
    assert denial is not None and (denial.code, denial.reason, denial.details) == (500, "", None)
    assert denial.message == (
        '[pods "p" is forbidden: spec.containers[0].imagePullPolicy: Unsupported value: "Never": supported values:'
        ' "Always", pods "p" is forbidden: spec.containers[1].imagePullPolicy: Unsupported value: "Never": supported'
        ' values: "Always"]'
    )


# --- SecurityContextDeny, LimitPodHardAntiAffinityTopology ----------------------------------------


@pytest.mark.parametrize(
    ("spec", "text"),
    [
        ({}, ""),
        ({"securityContext": {"runAsNonRoot": True}}, ""),
        ({"securityContext": {"runAsUser": 0}}, "pod.Spec.SecurityContext.RunAsUser is forbidden"),
        ({"securityContext": {"fsGroup": 1}}, "pod.Spec.SecurityContext.FSGroup is forbidden"),
        (
            {"securityContext": {"supplementalGroups": [], "seLinuxOptions": {}}},
            "pod.Spec.SecurityContext.SupplementalGroups is forbidden",
        ),
        (
            {"initContainers": [{"name": "i", "securityContext": {"seLinuxOptions": {}}}]},
            "SecurityContext.SELinuxOptions is forbidden",
        ),
        (
            {"containers": [{"name": "c", "securityContext": {"runAsUser": 7}}]},
            "SecurityContext.RunAsUser is forbidden",
        ),
    ],
)
def test_security_context_that_chooses_a_user_is_refused(spec: Obj, text: str) -> None:
    denial = SecurityContextDeny().validate(asks("pods", name="p"), pod(**spec), FakeView())
    assert ("" if denial is None else denial.message) == (text and f'pods "p" is forbidden: {text}')


@pytest.mark.parametrize(("key", "is_allowed"), [("kubernetes.io/hostname", True), ("zone", False)])
def test_required_anti_affinity_is_by_host(key: str, is_allowed: bool) -> None:
    terms = {"requiredDuringSchedulingIgnoredDuringExecution": [{"topologyKey": key}]}
    plugin = LimitPodHardAntiAffinityTopology(NAMING)
    denial = plugin.validate(asks("pods", name="p"), pod(affinity={"podAntiAffinity": terms}), FakeView())
    assert (denial is None) is is_allowed
    if denial is not None:
        assert denial.message == (
            'pods "p" is forbidden: affinity.PodAntiAffinity.RequiredDuringScheduling has TopologyKey zone but only key'
            " kubernetes.io/hostname is allowed"
        )


# --- PodNodeSelector ------------------------------------------------------------------------------

SELECTORS = {"clusterDefaultNodeSelector": "pool=a", "d": "pool=a,disk=ssd"}


def test_pod_gets_the_node_selector_of_its_namespace() -> None:
    plugin, view = PodNodeSelector(NAMING, {}), namespace(**{"node-selector": "pool=b, disk = ssd"})
    made = changed(plugin, pod(nodeSelector={"zone": "z"}), view)
    assert made["spec"]["nodeSelector"] == {"pool": "b", "disk": "ssd", "zone": "z"}
    assert changed(plugin, made, view) is made
    assert changed(PodNodeSelector(NAMING, SELECTORS), pod())["spec"]["nodeSelector"] == {"pool": "a"}
    plain = pod()
    assert changed(PodNodeSelector(NAMING, {}), plain) is plain


def test_node_selector_against_its_namespace_is_refused() -> None:
    plugin = PodNodeSelector(NAMING, SELECTORS)
    code, text = refused(plugin, pod(nodeSelector={"pool": "b"}))
    assert (code, text) == (
        403, 'pods "p" is forbidden: pod node label selector conflicts with its namespace node label selector',
    )  # fmt: skip
    _, text = refused(plugin, pod(nodeSelector={"zone": "z"}))
    assert text.endswith("pod node label selector labels conflict with its namespace whitelist")
    assert changed(plugin, pod(nodeSelector={"disk": "ssd"}))["spec"]["nodeSelector"]["pool"] == "a"


def test_malformed_selector_of_a_namespace_is_a_plain_error() -> None:
    plugin = PodNodeSelector(NAMING, {})
    assert refused(plugin, pod(), namespace(**{"node-selector": "pool"})) == (500, "invalid selector: [pool]")


# --- tolerations ----------------------------------------------------------------------------------

DEDICATED = {"key": "dedicated", "operator": "Equal", "value": "db", "effect": "NoSchedule"}
WIDE = {"operator": "Exists"}
BURSTABLE = {"containers": [{"name": "c", "image": "i", "resources": {"requests": {"cpu": "1"}}}]}
PRESSURE = {"key": "node.kubernetes.io/memory-pressure", "operator": "Exists", "effect": "NoSchedule"}


def test_toleration_that_another_one_covers_is_left_out() -> None:
    assert merged_tolerations([DEDICATED], [WIDE]) == [WIDE]
    assert merged_tolerations([WIDE], [DEDICATED]) == [WIDE]
    assert merged_tolerations([DEDICATED], [{**DEDICATED, "value": "web"}]) == [
        DEDICATED,
        {**DEDICATED, "value": "web"},
    ]
    assert merged_tolerations([DEDICATED], [DEDICATED]) == [DEDICATED]
    short, long = (
        {"key": "a", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": s} for s in (1, 2)
    )
    assert merged_tolerations([short], [long]) == [long]


def test_pod_gets_the_tolerations_of_its_namespace() -> None:
    plugin = PodTolerationRestriction(NAMING, TolerationLimits(default=(DEDICATED,)))
    assert changed(plugin, pod())["spec"]["tolerations"] == [DEDICATED]
    assert changed(plugin, pod(**BURSTABLE))["spec"]["tolerations"] == [DEDICATED, PRESSURE]
    assert "tolerations" not in changed(plugin, pod(), namespace(defaultTolerations=""))["spec"]
    noted = namespace(defaultTolerations=json.dumps([WIDE]))
    assert changed(plugin, pod(), noted)["spec"]["tolerations"] == [WIDE]


def test_toleration_outside_of_the_whitelist_is_refused() -> None:
    plugin = PodTolerationRestriction(NAMING, TolerationLimits(whitelist=(DEDICATED,)))
    given = pod(tolerations=[WIDE])
    text = (
        "pod tolerations (possibly merged with namespace default tolerations) conflict with its {} whitelist"
    )
    assert refused(plugin, given) == (500, text.format("cluster"))
    assert changed(plugin, pod(tolerations=[DEDICATED]))
    noted = namespace(tolerationsWhitelist=json.dumps([DEDICATED]))
    plugin = PodTolerationRestriction(NAMING, TolerationLimits())
    assert refused(plugin, given, noted) == (500, text.format("namespace"))
    assert changed(plugin, given, namespace(tolerationsWhitelist="")) is given


def test_malformed_tolerations_of_a_namespace_are_a_plain_error() -> None:
    plugin = PodTolerationRestriction(NAMING, TolerationLimits())
    assert refused(plugin, pod(), namespace(defaultTolerations="["))[0] == 500


def test_pod_with_a_device_tolerates_the_taint_of_its_nodes() -> None:
    resources = {"requests": {"example.com/b": "1", "cpu": "1"}}
    given = pod(
        containers=[{"name": "c", "resources": resources}],
        initContainers=[{"name": "i", "resources": {"requests": {"example.com/a": "1"}}}],
        tolerations=[DEDICATED],
    )
    made = changed(ExtendedResourceToleration(), given)
    wanted = [{"key": f"example.com/{x}", "operator": "Exists", "effect": "NoSchedule"} for x in "ab"]
    assert made["spec"]["tolerations"] == [DEDICATED, *wanted]
    assert changed(ExtendedResourceToleration(), made) is made
