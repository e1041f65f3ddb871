"""The admission chain, plugin by plugin."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from sim.api.admission.base import Attributes, Denial
from sim.api.admission.chain import WITHOUT_EFFECT, Chain, check_plugins, plugin_names
from sim.api.admission.configuration import Configuration
from sim.api.schema.resource import Resource
from sim.api.scheme.scheme import Scheme
from sim.api.types import Obj
from sim.errors import InputError
from sim.ident import NAMES

NAMES_ = NAMES["kubernetes"]
SCHEME = Scheme(NAMES_)
TOLERATIONS = [
    {
        "effect": "NoExecute",
        "key": f"node.kubernetes.io/{key}",
        "operator": "Exists",
        "tolerationSeconds": 300,
    }
    for key in ("not-ready", "unreachable")
]


class FakeView:
    """A cluster of a few objects."""

    def __init__(self, **objects: list[Obj]) -> None:
        namespace = {"metadata": {"name": "d"}, "status": {"phase": "Active"}}
        going = {"metadata": {"name": "going"}, "status": {"phase": "Terminating"}}
        account = {"metadata": {"name": "default", "namespace": "d"}}
        self.volatile = False
        self.objects = {"namespaces": [namespace, going], "serviceaccounts": [account], **objects}

    def get(self, resource: str, namespace: str, name: str) -> Obj | None:
        return next((o for o in self.list(resource, namespace) if o["metadata"]["name"] == name), None)

    def by_kind(self, api_version: str, kind: str) -> Resource | None:
        return SCHEME.by_kind(api_version, kind)

    def mark_volatile(self) -> None:
        self.volatile = True

    def list(self, resource: str, namespace: str = "") -> Sequence[Obj]:
        found = self.objects.get(resource, [])
        return [o for o in found if o["metadata"].get("namespace", "") == namespace]


def chain(**options: Any) -> Chain:
    return Chain(NAMES_, lambda spec, account: "aaaaa", **options)


def asks(resource: str, operation: str = "create", namespace: str = "d", **rest: Any) -> Attributes:
    return Attributes(operation=operation, resource=SCHEME.resource(resource), namespace=namespace, **rest)


def pod(**spec: Any) -> Obj:
    return {"metadata": {"name": "p"}, "spec": {"containers": [{"name": "c", "image": "i"}], **spec}}


def admitted(
    obj: Obj, view: FakeView | None = None, attributes: Attributes | None = None, **options: Any
) -> Obj:
    result = chain(**options).mutate(attributes or asks("pods", name="p"), obj, view or FakeView())
    assert not isinstance(result, Denial), result
    return result


def denied(attributes: Attributes, obj: Obj, view: FakeView | None = None) -> Denial:
    result = chain().mutate(attributes, obj, view or FakeView())
    assert isinstance(result, Denial)
    return result


def test_missing_namespace_is_not_found_for_every_kind():
    denial = denied(asks("configmaps", namespace="none"), {"metadata": {"name": "x"}})
    assert (denial.code, denial.message) == (404, 'namespaces "none" not found')
    assert denial.details == {"name": "none", "kind": "namespaces"}


def test_a_terminating_namespace_takes_updates_and_no_new_objects():
    obj = {"metadata": {"name": "x"}}
    denial = denied(asks("configmaps", namespace="going", name="x"), obj)
    assert denial.message == (
        'configmaps "x" is forbidden: unable to create new content in namespace going because it is being terminated'
    )
    assert denial.details["causes"][0]["reason"] == "NamespaceTerminating"
    assert chain().mutate(asks("configmaps", "update", "going"), obj, FakeView()) is obj
    assert chain().mutate(asks("configmaps", "delete", "none"), obj, FakeView()) is obj


def test_the_clusters_own_namespaces_stay():
    denial = denied(asks("namespaces", "delete", "", name="kube-system"), {})
    assert denial.message == 'namespaces "kube-system" is forbidden: this namespace may not be deleted'


def test_a_pod_gets_the_default_account_and_its_token():
    spec = admitted(pod())["spec"]
    mount = {
        "name": "kube-api-access-aaaaa",
        "readOnly": True,
        "mountPath": "/var/run/secrets/kubernetes.io/serviceaccount",
    }
    assert spec["serviceAccountName"] == spec["serviceAccount"] == "default"
    assert spec["containers"][0]["volumeMounts"] == [mount]
    sources = spec["volumes"][0]["projected"]["sources"]
    assert [next(iter(s)) for s in sources] == ["serviceAccountToken", "configMap", "downwardAPI"]
    assert sources[0]["serviceAccountToken"]["expirationSeconds"] == 3607


@pytest.mark.parametrize("where", ["pod", "account"])
def test_without_automount_nothing_is_mounted(where: str):
    if where == "pod":
        spec = admitted(pod(automountServiceAccountToken=False))["spec"]
    else:
        account = {
            "metadata": {"name": "default", "namespace": "d"},
            "automountServiceAccountToken": False,
            "imagePullSecrets": [{"name": "s"}],
        }
        spec = admitted(pod(), FakeView(serviceaccounts=[account]))["spec"]
        assert spec["imagePullSecrets"] == [{"name": "s"}]
    assert "volumes" not in spec
    assert "volumeMounts" not in spec["containers"][0]


def test_an_unknown_account_is_refused():
    denial = denied(asks("pods", name="p"), pod(serviceAccountName="ghost"))
    assert denial.message == (
        'pods "p" is forbidden: error looking up service account d/ghost: serviceaccount "ghost" not found'
    )


def test_mirror_pod_with_an_account_is_refused_before_it_is_validated():
    """The plugin changes no mirror pod, and judges it at once (serviceaccount: Admit)."""
    mirror = pod(serviceAccountName="default")
    mirror["metadata"]["annotations"] = {"kubernetes.io/config.mirror": "x"}
    denial = denied(asks("pods"), mirror)
    assert denial.message.endswith("a mirror pod may not reference service accounts")


def test_pods_of_one_template_share_their_admitted_spec():
    plugins, view, shared = chain(), FakeView(), pod()["spec"]
    a, b = (
        plugins.mutate(asks("pods", name=name), {"metadata": {"name": name}, "spec": shared}, view)
        for name in ("a", "b")
    )
    assert not isinstance(a, Denial) and not isinstance(b, Denial)
    assert a["spec"] is b["spec"]


def test_a_new_node_is_tainted_not_ready_once():
    taint = {"effect": "NoSchedule", "key": "node.kubernetes.io/not-ready"}
    new = admitted({"metadata": {"name": "n"}}, attributes=asks("nodes", namespace=""))
    assert new["spec"] == {"taints": [taint]}
    assert admitted(new, attributes=asks("nodes", namespace="")) is new


@pytest.mark.parametrize(
    ("given", "added"),
    [
        ([], TOLERATIONS),
        ([{"key": "x", "operator": "Exists"}], TOLERATIONS),
        ([{"operator": "Exists"}], []),
        ([{"operator": "Exists", "effect": "NoExecute"}], []),
        ([{"key": "node.kubernetes.io/not-ready", "operator": "Exists"}], TOLERATIONS[1:]),
        (
            [{"key": "node.kubernetes.io/unreachable", "operator": "Exists", "effect": "NoSchedule"}],
            TOLERATIONS,
        ),
    ],
)
def test_default_tolerations_are_added_per_key(given: list[Obj], added: list[Obj]):
    assert admitted(pod(tolerations=given))["spec"]["tolerations"] == given + added


def priority_class(name: str, value: int, **rest: Any) -> Obj:
    return {"metadata": {"name": name}, "value": value, "preemptionPolicy": "PreemptLowerPriority", **rest}


def test_priority_comes_from_the_class_or_the_default_class_or_is_zero():
    view = FakeView(priorityclasses=[priority_class("high", 9), priority_class("low", 3, globalDefault=True)])
    assert admitted(pod(priorityClassName="high"), view)["spec"]["priority"] == 9
    default = admitted(pod(), view)["spec"]
    assert (default["priority"], default["priorityClassName"]) == (3, "low")
    plain = admitted(pod())["spec"]
    assert (plain["priority"], plain["preemptionPolicy"]) == (0, "PreemptLowerPriority")
    assert "priorityClassName" not in plain


def test_a_priority_of_ones_own_is_refused_and_kept_on_update():
    assert denied(asks("pods", name="p"), pod(priority=5)).message == (
        'pods "p" is forbidden: the integer value of priority (5) must not be provided in pod spec;'
        " priority admission controller computed 0 from the given PriorityClass name"
    )
    assert denied(asks("pods", name="p"), pod(priorityClassName="x")).message == (
        'pods "p" is forbidden: no PriorityClass with name x was found'
    )
    old = admitted(pod())
    assert admitted(pod(), attributes=asks("pods", "update", old=old))["spec"]["priority"] == 0


def test_there_is_one_default_class_at_most():
    view = FakeView(priorityclasses=[priority_class("a", 1, globalDefault=True)])
    plugins = chain()
    denial = plugins.validate(
        asks("priorityclasses", namespace="", name="b"), priority_class("b", 2, globalDefault=True), view
    )
    assert denial is not None
    assert "PriorityClass a is already marked as default. Only one default can exist" in denial.message
    again = asks("priorityclasses", "update", "", name="a")
    assert plugins.validate(again, priority_class("a", 1, globalDefault=True), view) is None


def test_a_plugin_that_is_switched_off_does_nothing():
    spec = admitted(pod(), disabled=("ServiceAccount", "Priority", "DefaultTolerationSeconds"))["spec"]
    assert spec == pod()["spec"]


@pytest.mark.parametrize("enabled", [(), ("AlwaysPullImages", "NodeRestriction")])
def test_optional_plugins_run_only_if_they_are_enabled(enabled: tuple[str, ...]) -> None:
    running = chain(enabled=enabled, disabled=("LimitRanger",)).running
    assert ("AlwaysPullImages" in running, "NodeRestriction" in running) == (bool(enabled),) * 2
    assert "LimitRanger" not in running and "ResourceQuota" in running
    assert [name for name in plugin_names() if name in running] == [*running]


@pytest.mark.parametrize(
    ("enabled", "disabled", "says"),
    [
        (
            ["PodNodeSelect"],
            [],
            "there is no admission plugin 'PodNodeSelect' here (did you mean 'PodNodeSelector'?)",
        ),
        ([], ["Nothing"], "there is no admission plugin 'Nothing' here (known are: AlwaysAdmit"),
        (["PersistentVolumeLabel"], [], "PersistentVolumeLabel has no effect here: no cloud provider knows"),
        ([], ["PersistentVolumeLabel"], "PersistentVolumeLabel has no effect here: no cloud provider knows"),
        (["ImagePolicyWebhook"], [], "ImagePolicyWebhook has no service (give its kubeConfigFile"),
        (
            ["AlwaysDeny", "Priority"],
            ["Priority", "AlwaysDeny"],
            "[AlwaysDeny Priority] in enable-admission-plugins and disable-admission-plugins overlapped",
        ),
        (["EventRateLimit"], [], "EventRateLimit has no limits (give them in admission-control-config-file)"),
    ],
)
def test_names_that_mean_nothing_are_refused(enabled: list[str], disabled: list[str], says: str) -> None:
    with pytest.raises(InputError) as refused:
        check_plugins(enabled, disabled, Configuration(), lambda option: f"at {option}")
    assert says in str(refused.value)
    assert refused.value.place.endswith("able-admission-plugins")


def test_order_is_upstreams() -> None:
    upstream = [
        "AlwaysAdmit",
        "NamespaceAutoProvision",
        "NamespaceLifecycle",
        "NamespaceExists",
        "SecurityContextDeny",
        "LimitPodHardAntiAffinityTopology",
        "LimitRanger",
        "ServiceAccount",
        "NodeRestriction",
        "TaintNodesByCondition",
        "AlwaysPullImages",
        "ImagePolicyWebhook",
        "PodSecurity",
        "PodNodeSelector",
        "Priority",
        "DefaultTolerationSeconds",
        "PodTolerationRestriction",
        "EventRateLimit",
        "ExtendedResourceToleration",
        "PersistentVolumeLabel",
        "DefaultStorageClass",
        "StorageObjectInUseProtection",
        "OwnerReferencesPermissionEnforcement",
        "PersistentVolumeClaimResize",
        "RuntimeClass",
        "CertificateApproval",
        "CertificateSigning",
        "CertificateSubjectRestriction",
        "DefaultIngressClass",
        "DenyServiceExternalIPs",
        "MutatingAdmissionWebhook",
        "ValidatingAdmissionWebhook",
        "ResourceQuota",
        "AlwaysDeny",
    ]
    assert [name for name in upstream if name not in WITHOUT_EFFECT] == [*plugin_names()]
    assert all(name in upstream for name in WITHOUT_EFFECT)
