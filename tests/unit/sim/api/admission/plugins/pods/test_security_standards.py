"""Pod security: the findings of each level, and refusals and warnings by a namespace's labels."""

from __future__ import annotations

from typing import Any

import pytest

from sim.api.admission.plugins.pods.security import (
    Exemptions,
    PodSecurity,
    PodSecurityLimits,
    Standard,
    is_significant,
    is_tightened,
)
from sim.api.admission.plugins.pods.security_standards import findings
from sim.api.types import Obj, UserInfo
from sim.ident import NAMES
from tests.unit.sim.api.admission.test_chain import FakeView, asks

NAMESET = NAMES["orch"]
PREFIX = NAMESET.label_pod_security_prefix
GOOD_CONTAINER = {
    "name": "c",
    "securityContext": {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}},
}
GOOD = {"runAsNonRoot": True, "seccompProfile": {"type": "RuntimeDefault"}}


def spec(container: Obj | None = None, **more: Any) -> Obj:
    return {"containers": [{"name": "c", **(container or {})}], **more}


def secure(**context: Any) -> Obj:
    return spec({"securityContext": context})


def found(level: str, given: Obj, minor: int = 25, **profiles: str) -> list[str]:
    return [str(finding) for finding in findings(level, minor, profiles, given)]


@pytest.mark.parametrize(
    ("given", "says"),
    [
        (spec(), []),
        (spec(hostNetwork=True, hostIPC=True), ["host namespaces (hostNetwork=true, hostIPC=true)"]),
        (
            secure(privileged=True),
            ['privileged (container "c" must not set securityContext.privileged=true)'],
        ),
        (
            spec({"ports": [{"hostPort": 81}, {"hostPort": 80}]}),
            ['hostPort (container "c" uses hostPorts 80, 81)'],
        ),
        (
            spec(volumes=[{"name": "v", "hostPath": {}}, {"name": "w", "hostPath": {}}]),
            ['hostPath volumes (volumes "v", "w")'],
        ),
        (
            secure(capabilities={"add": ["SYS_TIME", "CHOWN", "NET_RAW"]}),
            [
                'non-default capabilities (container "c" must not include "NET_RAW", "SYS_TIME"'
                " in securityContext.capabilities.add)"
            ],
        ),
        (
            secure(procMount="Unmasked"),
            ['procMount (container "c" must not set securityContext.procMount to "Unmasked")'],
        ),
        (
            spec(securityContext={"sysctls": [{"name": "a"}, {"name": "kernel.shm_rmid_forced"}]}),
            ["forbidden sysctls (a)"],
        ),
        (
            secure(seLinuxOptions={"type": "spc_t", "user": "u"}),
            [
                'seLinuxOptions (container "c" set forbidden securityContext.seLinuxOptions:'
                ' type "spc_t"; user may not be set)'
            ],
        ),
        (
            {
                **secure(seccompProfile={"type": "Unconfined"}),
                "securityContext": {"seccompProfile": {"type": "Unconfined"}},
            },
            [
                'seccompProfile (pod and container "c" must not set securityContext.seccompProfile.type'
                ' to "Unconfined")'
            ],
        ),
        (
            spec(securityContext={"windowsOptions": {"hostProcess": True}}),
            ["hostProcess (pod must not set securityContext.windowsOptions.hostProcess=true)"],
        ),
    ],
)
def test_what_baseline_finds(given: Obj, says: list[str]) -> None:
    assert found("baseline", given) == says
    assert found("privileged", given) == []


def test_apparmor_profiles_that_are_unconfined_are_found() -> None:
    assert found("baseline", spec(), **{"x/c": "unconfined", "x/d": "localhost/p"}) == [
        'forbidden AppArmor profile (x/c="unconfined")'
    ]


def test_seccomp_is_a_matter_of_annotations_before_their_fields() -> None:
    annotations = {"y/pod": "unconfined", "y/c": "localhost/p", "y/d": "docker/default"}
    context = spec(securityContext={"seccompProfile": {"type": "Unconfined"}})
    (old,) = findings("baseline", 18, {}, context, annotations)
    assert old.detail == 'forbidden annotation y/pod="unconfined"'
    (new,) = findings("baseline", 19, {}, context, annotations)
    assert new.detail == 'pod must not set securityContext.seccompProfile.type to "Unconfined"'


def test_role_alone_is_forbidden_without_words() -> None:
    assert found("baseline", spec(securityContext={"seLinuxOptions": {"role": "r"}})) == [
        "seLinuxOptions (pod set forbidden securityContext.seLinuxOptions: )"
    ]


def test_what_restricted_finds_in_a_pod_that_says_nothing() -> None:
    assert found("restricted", spec()) == [
        'allowPrivilegeEscalation != false (container "c" must set securityContext.allowPrivilegeEscalation=false)',
        'unrestricted capabilities (container "c" must set securityContext.capabilities.drop=["ALL"])',
        'runAsNonRoot != true (pod or container "c" must set securityContext.runAsNonRoot=true)',
        'seccompProfile (pod or container "c" must set securityContext.seccompProfile.type to'
        ' "RuntimeDefault" or "Localhost")',
    ]
    assert found("restricted", spec(GOOD_CONTAINER, securityContext=GOOD)) == []


def test_a_version_has_the_checks_that_there_were() -> None:
    reasons = [finding.reason for finding in findings("restricted", 20, {}, spec())]
    assert reasons == ["allowPrivilegeEscalation != false", "runAsNonRoot != true", "seccompProfile"]
    root = {**GOOD, "runAsUser": 0}
    assert found("restricted", spec(GOOD_CONTAINER, securityContext=root), 22) == []
    assert found("restricted", spec(GOOD_CONTAINER, securityContext=root)) == [
        "runAsUser=0 (pod must not set runAsUser=0)"
    ]


def test_a_pod_of_windows_need_not_say_what_only_linux_knows() -> None:
    windows = spec(os={"name": "windows"}, securityContext={"runAsNonRoot": True})
    assert found("restricted", windows) == []
    assert len(found("restricted", windows, 24)) == 3


def test_restricted_volumes_are_named_by_their_kinds() -> None:
    volumes = [{"name": "a", "nfs": {}}, {"name": "b", "hostPath": {}}, {"name": "d", "emptyDir": {}}]
    assert found("restricted", spec(GOOD_CONTAINER, securityContext=GOOD, volumes=volumes)) == [
        'restricted volume types (volumes "a", "b" use restricted volume types "hostPath", "nfs")'
    ]


def view(pods: tuple[Obj, ...] = (), **labels: str) -> FakeView:
    marked = {f"{PREFIX}{mode.replace('_', '-')}": value for mode, value in labels.items()}
    namespace = {"metadata": {"name": "d", "labels": marked}}
    return FakeView(namespaces=[namespace], pods=list(pods))


def pod(**more: Any) -> Obj:
    return {"metadata": {"name": "p", "namespace": "d"}, "spec": spec(**more)}


def test_a_pod_below_the_standard_is_refused_and_warned_of_if_let_in() -> None:
    plugin, host = PodSecurity(NAMESET), pod(hostPID=True)
    refused = plugin.validate(asks("pods"), host, view(enforce="baseline"))
    assert refused is not None
    text = 'pods "p" is forbidden: violates PodSecurity "baseline:latest": host namespaces (hostPID=true)'
    assert (refused.code, refused.message) == (403, text)
    asked = asks("pods")
    assert plugin.validate(asked, host, view(warn="baseline", warn_version="v1.20")) is None
    assert asked.warnings == ['would violate PodSecurity "baseline:v1.20": host namespaces (hostPID=true)']
    asked = asks("pods")
    assert plugin.validate(asked, host, view()) is None
    assert asked.warnings == []


def test_annotations_of_profiles_are_read_for_a_pod_and_for_its_containers() -> None:
    for key in (NAMESET.annotation_seccomp_pod, f"{NAMESET.annotation_seccomp_container_prefix}c"):
        noted = pod()
        noted["metadata"]["annotations"] = {key: "unconfined"}
        asked = asks("pods")
        PodSecurity(NAMESET).validate(asked, noted, view(warn="baseline", warn_version="v1.0"))
        assert f'forbidden annotation {key}="unconfined"' in asked.warnings[0]


def test_of_a_template_one_is_warned_and_no_more() -> None:
    deployment = {"metadata": {"name": "w"}, "spec": {"template": {"spec": spec(hostPID=True)}}}
    asked = asks("deployments")
    assert PodSecurity(NAMESET).validate(asked, deployment, view(enforce="baseline", warn="baseline")) is None
    assert len(asked.warnings) == 1


def test_only_what_could_make_a_pod_worse_is_looked_at_again() -> None:
    old, seccomp = pod(), NAMESET.annotation_seccomp_container_prefix
    noted = {f"{seccomp}c": "runtime/default"}
    assert not is_significant(old, {**old, "metadata": {"name": "p", "labels": {"a": "b"}}}, seccomp)
    assert is_significant(old, pod(container={"image": "other"}), seccomp)
    assert is_significant(old, pod(ephemeralContainers=[{"name": "e", "image": "i"}]), seccomp)
    assert is_significant(old, {**old, "metadata": {"name": "p", "annotations": noted}}, seccomp)


def test_labels_that_mean_nothing_are_refused() -> None:
    plugin = PodSecurity(NAMESET)
    namespace = {
        "metadata": {"name": "d", "labels": {f"{PREFIX}enforce": "strict", f"{PREFIX}warn-version": "2"}}
    }
    refused = plugin.validate(asks("namespaces", namespace="", name="d"), namespace, FakeView())
    assert refused is not None
    assert refused.code == 422
    assert 'Invalid value: "strict": must be one of privileged, baseline, restricted' in refused.message
    assert 'Invalid value: "2": must be "latest" or "v1.x"' in refused.message
    again = asks("namespaces", "update", "", name="d", old=namespace)
    assert plugin.validate(again, namespace, FakeView()) is None


def test_stricter_namespace_level_warns_about_existing_pods() -> None:
    pods = [
        {"metadata": {"name": n, "namespace": "d"}, "spec": spec(hostPID=True)} for n in ("h2", "h1", "h3")
    ]
    fine = {"metadata": {"name": "a", "namespace": "d"}, "spec": spec()}
    old: Obj = {"metadata": {"name": "d"}}
    new = {"metadata": {"name": "d", "labels": {f"{PREFIX}enforce": "baseline"}}}
    asked = asks("namespaces", "update", "", name="d", old=old)
    assert PodSecurity(NAMESET).validate(asked, new, FakeView(pods=[*pods, fine])) is None
    assert asked.warnings == [
        'existing pods in namespace "d" violate the new PodSecurity enforce level "baseline:latest"',
        "h1 (and 2 other pods): host namespaces",
    ]


@pytest.mark.parametrize(
    ("old", "new", "tightened"),
    [
        (Standard(), Standard("baseline"), True),
        (Standard("restricted"), Standard("baseline"), False),
        (Standard("restricted"), Standard("baseline", "v1.2"), True),
        (Standard("baseline"), Standard(), False),
        (Standard("baseline"), Standard("baseline"), False),
    ],
)
def test_a_standard_rises_when_pods_might_not_be_let_in_any_more(
    old: Standard, new: Standard, tightened: bool
) -> None:
    assert is_tightened(old, new) is tightened


HOST = {"runtimeClassName": "sandbox", "hostPID": True}
BASELINE = {
    mode: Standard("baseline" if mode == "enforce" else "privileged") for mode in ("enforce", "audit", "warn")
}


def test_namespace_without_labels_has_the_standards_of_the_configuration() -> None:
    plugin = PodSecurity(NAMESET, PodSecurityLimits(BASELINE))
    refused = plugin.validate(asks("pods"), pod(hostPID=True), view())
    assert refused is not None
    assert 'violates PodSecurity "baseline:latest"' in refused.message
    assert plugin.validate(asks("pods"), pod(hostPID=True), view(enforce="privileged")) is None


@pytest.mark.parametrize(
    "exempt",
    [Exemptions(usernames=("ann",)), Exemptions(namespaces=("d",)), Exemptions(runtime_classes=("sandbox",))],
    ids=["user", "namespace", "class"],
)
def test_exempt_request_is_not_checked(exempt: Exemptions) -> None:
    host = {"metadata": {"name": "p", "namespace": "d"}, "spec": spec(**HOST)}
    asked = asks("pods", user=UserInfo("ann"))
    assert PodSecurity(NAMESET, PodSecurityLimits(BASELINE)).validate(asked, host, view()) is not None
    assert PodSecurity(NAMESET, PodSecurityLimits(BASELINE, exempt)).validate(asked, host, view()) is None


def test_labels_of_an_exempt_namespace_cause_a_warning() -> None:
    plugin = PodSecurity(NAMESET, PodSecurityLimits(exemptions=Exemptions(namespaces=("d",))))
    labels = {f"{PREFIX}enforce": "baseline", f"{PREFIX}warn": "restricted", f"{PREFIX}audit": "privileged"}
    asked = asks("namespaces", namespace="", name="d")
    assert plugin.validate(asked, {"metadata": {"name": "d", "labels": labels}}, FakeView()) is None
    assert asked.warnings == [
        'namespace "d" is exempt from Pod Security, and the policy (enforce=baseline:latest, warn=restricted:latest)'
        " will be ignored"
    ]


@pytest.mark.parametrize(
    ("labels", "exempt", "annotations"),
    [
        ({}, Exemptions(), {"enforce-policy": "privileged:latest"}),
        ({"enforce": "baseline"}, Exemptions(), {"enforce-policy": "baseline:latest"}),
        (
            {"audit": "baseline", "audit_version": "v1.20"},
            Exemptions(),
            {
                "enforce-policy": "privileged:latest",
                "audit-violations": 'would violate PodSecurity "baseline:v1.20": host namespaces (hostPID=true)',
            },
        ),
        (
            {"warn": "odd"},
            Exemptions(),
            {
                "enforce-policy": "privileged:latest",
                "error": f'Failed to parse policy: metadata.labels[{PREFIX}warn]: Invalid value: "odd": must be one of '
                "privileged, baseline, restricted",
            },
        ),
        ({"enforce": "baseline"}, Exemptions(namespaces=("d",)), {"exempt": "namespace"}),
        ({"enforce": "baseline"}, Exemptions(usernames=("ann",)), {"exempt": "user"}),
        ({"enforce": "baseline"}, Exemptions(runtime_classes=("sandbox",)), {"exempt": "runtimeClass"}),
    ],
)
def test_decision_about_a_pod_is_annotated(
    labels: dict[str, str], exempt: Exemptions, annotations: dict[str, str]
) -> None:
    plugin = PodSecurity(NAMESET, PodSecurityLimits(exemptions=exempt))
    asked = asks("pods", user=UserInfo("ann"), annotations={})
    host = {"metadata": {"name": "p", "namespace": "d"}, "spec": spec(**HOST)}
    plugin.validate(asked, host, view(**labels))
    assert asked.annotations == {PREFIX + key: value for key, value in annotations.items()}


def test_template_is_annotated_only_if_it_violates_the_audit_level() -> None:
    deployment = {"metadata": {"name": "w"}, "spec": {"template": {"spec": spec(hostPID=True)}}}
    for labels, keys in (
        ({"enforce": "baseline"}, []),
        ({"audit": "baseline"}, [f"{PREFIX}audit-violations"]),
    ):
        asked = asks("deployments", annotations={})
        assert PodSecurity(NAMESET).validate(asked, deployment, view(**labels)) is None
        assert [*(asked.annotations or ())] == keys
