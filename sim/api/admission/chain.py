"""The admission chain: a decoded, defaulted object in; the object to be stored, or a `Denial`, out.

Turns (attributes of the request, object, read-only view of the cluster) into a decision, plugin by
plugin in the order of `PLUGINS`, which is upstream's.  A plugin exists by its line in that list.
`Chain.mutate` runs before the strategy's preparation and validation, `Chain.validate` after.

Holds: plugins read only their arguments.  A pod spec that was admitted before under the same
service account and priority class gives the same object, so that pods of one owner share it.

Mirrors  kubernetes v1.25
         plugin/pkg/admission/{namespace/lifecycle,serviceaccount,nodetaint,priority,
         defaulttolerationseconds}/admission.go, pkg/kubeapiserver/options/plugins.go (order).
Differs  - the suffix of the token volume is drawn once per template and account, not per pod:
           else no two pods would share their containers.
         - a missing namespace or account is refused at once: the view is never behind the store,
           so upstream's short waits and live reads have nothing to wait for.
         - plugins that are not registered in `PLUGINS` do not exist here.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

import msgspec

from sim.api.admission.base import (
    Attributes,
    Denial,
    Plugin,
    ValidatingPlugin,
    View,
    forbidden,
    name_of,
)
from sim.api.admission.classes import DefaultIngressClass, RuntimeClass
from sim.api.admission.limit_ranger import LimitRanger
from sim.api.admission.pod_security import PodSecurity
from sim.api.memo import IdentityMemo
from sim.api.types import Obj
from sim.ident import Names

# serviceaccount/admission.go: DefaultAPITokenMountPath; TokenVolumeSource.
TOKEN_MOUNT_PATH = "/var/run/secrets/{product}.io/serviceaccount"
TOKEN_EXPIRATION_S = 60 * 60 + 7  # legacytoken.WarnOnlyBoundTokenExpirationSeconds
TOKEN_FILE_MODE = 420  # v1.ProjectedVolumeSourceDefaultMode, 0644
# defaulttolerationseconds/admission.go: defaultNotReadyTolerationSeconds and its twin.
TOLERATION_S = 300
PREEMPT = "PreemptLowerPriority"


class Defaults(msgspec.Struct, frozen=True):
    """Options of plugins: --default-not-ready-toleration-seconds and
    --default-unreachable-toleration-seconds.
    """

    not_ready_toleration_s: int = TOLERATION_S
    unreachable_toleration_s: int = TOLERATION_S


class NamespaceLifecycle:
    """Refuses creates in an absent or terminating namespace, and deletes of the system namespaces."""

    def __init__(self, names: Names) -> None:
        self._immortal = (names.default_namespace, names.system_namespace, names.public_namespace)

    def concerns(self, operation: str, plural: str, subresource: str) -> bool:
        """True for requests with objects that the plugin mutates."""
        return (operation == "delete") == (plural == "namespaces")

    def mutate(self, attributes: Attributes, obj: Obj, view: View) -> Obj | Denial:
        """The object as the plugin changes it, or the refusal."""
        if attributes.operation == "delete":
            if attributes.name in self._immortal:
                return forbidden(attributes, "this namespace may not be deleted")
            return obj
        namespace = attributes.namespace
        if not namespace:
            return obj
        found = view.get("namespaces", "", namespace)
        if found is None:
            details = {"name": namespace, "kind": "namespaces"}
            return Denial(404, "NotFound", f'namespaces "{namespace}" not found', details)
        going = (found.get("status") or {}).get("phase") == "Terminating"
        if not going or attributes.operation != "create":
            return obj
        cause = {
            "reason": "NamespaceTerminating",
            "message": f"namespace {namespace} is being terminated",
            "field": "metadata.namespace",
        }
        text = f"unable to create new content in namespace {namespace} because it is being terminated"
        return forbidden(attributes, text, name_of(attributes, obj), [cause])


class ServiceAccount:
    """Gives each pod a service account of its namespace and mounts a token of the account."""

    def __init__(self, names: Names, suffix_of: Callable[[Obj, Obj], str]) -> None:
        self._names = names
        self._suffix_of = suffix_of
        self._mount_path = TOKEN_MOUNT_PATH.format(product=names.product)
        self._specs: IdentityMemo[Obj] = IdentityMemo()

    def concerns(self, operation: str, plural: str, subresource: str) -> bool:
        """True for requests with objects that the plugin mutates."""
        return operation == "create" and _is_pod(plural, subresource)

    judges = concerns

    def mutate(self, attributes: Attributes, obj: Obj, view: View) -> Obj | Denial:
        """The object as the plugin changes it, or the refusal."""
        if _is_mirror(self._names, obj):
            return obj
        spec = obj.get("spec") or {}
        name = spec.get("serviceAccountName") or self._names.default_service_account
        account = view.get("serviceaccounts", attributes.namespace, name)
        if account is None:
            return self._not_found(attributes, obj, name)
        made = self._specs.get(spec, account)
        if made is None:
            made = self._specs.put(self._admitted(spec, name, account), spec, account)
        return obj if made is spec else {**obj, "spec": made}

    def validate(self, attributes: Attributes, obj: Obj, view: View) -> Denial | None:
        """The refusal of an object as it would be stored; None if it is allowed."""
        spec = obj.get("spec") or {}
        name = spec.get("serviceAccountName", "")
        if _is_mirror(self._names, obj):
            text = _mirror_error(spec)
            return forbidden(attributes, text, name_of(attributes, obj)) if text else None
        account = view.get("serviceaccounts", attributes.namespace, name)
        if account is None:
            return self._not_found(attributes, obj, name)
        annotations = account["metadata"].get("annotations")
        if annotations and annotations.get(self._names.annotation_mountable_secrets) == "true":
            text = _secrets_error(spec, account)
            return forbidden(attributes, text, name_of(attributes, obj)) if text else None
        return None

    def _not_found(self, attributes: Attributes, obj: Obj, name: str) -> Denial:
        text = f'error looking up service account {attributes.namespace}/{name}: serviceaccount "{name}" not found'
        return forbidden(attributes, text, name_of(attributes, obj))

    def _admitted(self, spec: Obj, name: str, account: Obj) -> Obj:
        out = {**spec, "serviceAccountName": name, "serviceAccount": name}
        automount = spec.get("automountServiceAccountToken")
        if automount is None:
            automount = account.get("automountServiceAccountToken")
        if automount is not False:
            self._mount_token(out, self._suffix_of(spec, account))
        if not spec.get("imagePullSecrets") and account.get("imagePullSecrets"):
            out["imagePullSecrets"] = account["imagePullSecrets"]
        return out

    def _mount_token(self, spec: Obj, suffix: str) -> None:
        """Mounts the token in each container that mounts nothing at its path; `spec` is a fresh
        copy.
        """
        prefix = self._names.volume_api_access_prefix
        given = next(
            (v["name"] for v in spec.get("volumes") or () if v.get("name", "").startswith(prefix)), ""
        )
        volume = given or prefix + suffix
        mount = {"name": volume, "readOnly": True, "mountPath": self._mount_path}
        mounted = False
        for kind in ("initContainers", "containers"):
            containers = spec.get(kind)
            if not containers:
                continue
            made = [self._with_mount(c, mount) for c in containers]
            if any(a is not b for a, b in zip(made, containers, strict=True)):
                spec[kind] = made
                mounted = True
        if mounted and not given:
            spec["volumes"] = [
                *(spec.get("volumes") or ()),
                {"name": volume, "projected": self._token_sources()},
            ]

    def _with_mount(self, container: Obj, mount: Obj) -> Obj:
        mounts = container.get("volumeMounts") or ()
        if any(m.get("mountPath") == self._mount_path for m in mounts):
            return container
        return {**container, "volumeMounts": [*mounts, mount]}

    def _token_sources(self) -> Obj:
        field = {"apiVersion": "v1", "fieldPath": "metadata.namespace"}
        return {
            "sources": [
                {"serviceAccountToken": {"expirationSeconds": TOKEN_EXPIRATION_S, "path": "token"}},
                {
                    "configMap": {
                        "name": self._names.config_map_root_ca,
                        "items": [{"key": "ca.crt", "path": "ca.crt"}],
                    }
                },
                {"downwardAPI": {"items": [{"path": "namespace", "fieldRef": field}]}},
            ],
            "defaultMode": TOKEN_FILE_MODE,
        }


def _is_pod(plural: str, subresource: str) -> bool:
    return plural == "pods" and not subresource


def _is_mirror(names: Names, obj: Obj) -> bool:
    return names.annotation_mirror_pod in (obj["metadata"].get("annotations") or ())


def _mirror_error(spec: Obj) -> str:
    if spec.get("serviceAccountName"):
        return "a mirror pod may not reference service accounts"
    volumes = spec.get("volumes") or ()
    containers = [*(spec.get("initContainers") or ()), *(spec.get("containers") or ())]
    if any("secret" in v for v in volumes) or any(_secret_names(c) for c in containers):
        return "a mirror pod may not reference secrets"
    sources = [s for v in volumes for s in (v.get("projected") or {}).get("sources") or ()]
    if any("serviceAccountToken" in s for s in sources):
        return "a mirror pod may not use ServiceAccountToken volume projections"
    return ""


def _secret_names(container: Obj) -> list[tuple[str, str]]:
    """The (environment variable, secret) pairs of a container."""
    pairs = []
    for env in container.get("env") or ():
        reference = (env.get("valueFrom") or {}).get("secretKeyRef")
        if reference:
            pairs.append((env.get("name", ""), reference.get("name", "")))
    return pairs


def _secrets_error(spec: Obj, account: Obj) -> str:
    """Why --enforce-mountable-secrets of an account refuses a pod; "" if it does not."""
    name = account["metadata"]["name"]
    mountable = [s.get("name") for s in account.get("secrets") or ()]
    tail = f"is not allowed because service account {name} does not reference that"
    for volume in spec.get("volumes") or ():
        secret = (volume.get("secret") or {}).get("secretName")
        if secret and secret not in mountable:
            return f'volume with secret.secretName="{secret}" {tail} secret'
    for kind, label in (("initContainers", "init container"), ("containers", "container")):
        for container in spec.get(kind) or ():
            for env, secret in _secret_names(container):
                if secret not in mountable:
                    where = f'{label} {container["name"]} with envVar {env} referencing secret.secretName="{secret}"'
                    return f"{where} {tail} secret"
    pullable = [s.get("name") for s in account.get("imagePullSecrets") or ()]
    for reference in spec.get("imagePullSecrets") or ():
        if reference.get("name") not in pullable:
            return f'imagePullSecret="{reference.get("name")}" {tail} imagePullSecret'
    return ""


class TaintNodesByCondition:
    """Taints a new node, so that it gets no pods until it is ready."""

    def __init__(self, names: Names) -> None:
        self._taint = {"key": names.taint_not_ready, "effect": "NoSchedule"}

    def concerns(self, operation: str, plural: str, subresource: str) -> bool:
        """True for requests with objects that the plugin mutates."""
        return operation == "create" and plural == "nodes" and not subresource

    def mutate(self, attributes: Attributes, obj: Obj, view: View) -> Obj | Denial:
        """The object as the plugin changes it, or the refusal."""
        spec = obj.get("spec") or {}
        taints = spec.get("taints") or ()
        key, effect = self._taint["key"], self._taint["effect"]
        if any(t.get("key") == key and t.get("effect") == effect for t in taints):
            return obj
        return {**obj, "spec": {**spec, "taints": [*taints, self._taint]}}


class Priority:
    """Sets a pod's priority from its class only; refuses a second default class."""

    def __init__(self, names: Names) -> None:
        self._specs: IdentityMemo[Obj] = IdentityMemo()
        self._no_class: Obj = {"value": 0}

    def concerns(self, operation: str, plural: str, subresource: str) -> bool:
        """True for requests with objects that the plugin mutates."""
        return operation != "delete" and _is_pod(plural, subresource)

    def judges(self, operation: str, plural: str, subresource: str) -> bool:
        """True for requests with objects that the plugin validates."""
        return operation != "delete" and plural == "priorityclasses"

    def mutate(self, attributes: Attributes, obj: Obj, view: View) -> Obj | Denial:
        """The object as the plugin changes it, or the refusal."""
        if attributes.operation == "update":
            return self._kept(attributes, obj)
        spec = obj.get("spec") or {}
        name = spec.get("priorityClassName")
        found = view.get("priorityclasses", "", name) if name else self._default_class(view)
        if found is None:
            if name:
                text = f"no PriorityClass with name {name} was found"
                return forbidden(attributes, text, name_of(attributes, obj))
            found = self._no_class
        made = self._specs.get(spec, found)
        if made is None:
            text = _priority_error(spec, found)
            if text:
                return forbidden(attributes, text, name_of(attributes, obj))
            made = self._specs.put(_with_priority(spec, found), spec, found)
        return {**obj, "spec": made}

    def validate(self, attributes: Attributes, obj: Obj, view: View) -> Denial | None:
        """The refusal of an object as it would be stored; None if it is allowed."""
        if not obj.get("globalDefault"):
            return None
        default = self._default_class(view)
        name = default["metadata"]["name"] if default else ""
        if not name or (attributes.operation == "update" and name == obj["metadata"].get("name")):
            return None
        text = f"PriorityClass {name} is already marked as default. Only one default can exist"
        return forbidden(attributes, text, name_of(attributes, obj))

    def _kept(self, attributes: Attributes, obj: Obj) -> Obj:
        """An update without a priority, with the stored one."""
        spec = obj.get("spec") or {}
        old = (attributes.old or {}).get("spec") or {}
        missing = {
            key: old[key] for key in ("priority", "preemptionPolicy") if spec.get(key) is None and key in old
        }
        return {**obj, "spec": {**spec, **missing}} if missing else obj

    def _default_class(self, view: View) -> Obj | None:
        """The global default; the lowest if two concurrent creates made several."""
        defaults = [c for c in view.list("priorityclasses") if c.get("globalDefault")]
        return min(defaults, key=lambda c: (c["value"], c["metadata"]["name"])) if defaults else None


def _priority_error(spec: Obj, found: Obj) -> str:
    value, policy = found.get("value", 0), found.get("preemptionPolicy", PREEMPT)
    tail = "from the given PriorityClass name"
    given = spec.get("priority")
    if given is not None and given != value:
        return (
            f"the integer value of priority ({given}) must not be provided in pod spec;"
            f" priority admission controller computed {value} {tail}"
        )
    given = spec.get("preemptionPolicy")
    if given is not None and given != policy:
        return (
            f"the string value of PreemptionPolicy ({given}) must not be provided in pod spec;"
            f" priority admission controller computed {policy} {tail}"
        )
    return ""


def _with_priority(spec: Obj, found: Obj) -> Obj:
    out = {
        **spec,
        "priority": found.get("value", 0),
        "preemptionPolicy": found.get("preemptionPolicy", PREEMPT),
    }
    if "metadata" in found:
        out["priorityClassName"] = found["metadata"]["name"]
    return out


class DefaultTolerationSeconds:
    """Lets pods stay five minutes on a node that is not ready or unreachable, by default."""

    def __init__(self, names: Names, defaults: Defaults) -> None:
        self._wanted = tuple(
            {"key": key, "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": seconds}
            for key, seconds in (
                (names.taint_not_ready, defaults.not_ready_toleration_s),
                (names.taint_unreachable, defaults.unreachable_toleration_s),
            )
        )
        self._specs: IdentityMemo[Obj] = IdentityMemo()

    def concerns(self, operation: str, plural: str, subresource: str) -> bool:
        """True for requests with objects that the plugin mutates."""
        return operation != "delete" and _is_pod(plural, subresource)

    def mutate(self, attributes: Attributes, obj: Obj, view: View) -> Obj | Denial:
        """The object as the plugin changes it, or the refusal."""
        spec = obj.get("spec") or {}
        made = self._specs.get(spec)
        if made is None:
            made = self._specs.put(self._tolerating(spec), spec)
        return obj if made is spec else {**obj, "spec": made}

    def _tolerating(self, spec: Obj) -> Obj:
        given = spec.get("tolerations") or ()
        missing = [w for w in self._wanted if not any(_covers(t, w["key"]) for t in given)]
        return {**spec, "tolerations": [*given, *missing]} if missing else spec


def _covers(toleration: Obj, key: Any) -> bool:
    # The operator and the value do not count, as upstream.
    return toleration.get("key", "") in ("", key) and toleration.get("effect", "") in ("", "NoExecute")


class Setup(NamedTuple):
    """What the plugins of one API server replica are made from.

    names: the identifiers of the cluster
    suffix_of: five letters for the name of a token volume, from a pod's spec and its service
        account
    defaults: options of the API server that plugins use
    """

    names: Names
    suffix_of: Callable[[Obj, Obj], str]
    defaults: Defaults


class Registration(NamedTuple):
    """One admission plugin: its name in --disable-admission-plugins, and how it is made.

    make: None for a plugin that is not a link of the chain because it writes
    """

    name: str
    make: Callable[[Setup], Plugin] | None


RESOURCE_QUOTA = "ResourceQuota"
# The one list of all admission plugins, in upstream's order
# (pkg/kubeapiserver/options/plugins.go: AllOrderedPlugins).
PLUGINS: tuple[Registration, ...] = (
    Registration("NamespaceLifecycle", lambda setup: NamespaceLifecycle(setup.names)),
    Registration("LimitRanger", lambda setup: LimitRanger(setup.names)),
    Registration("ServiceAccount", lambda setup: ServiceAccount(setup.names, setup.suffix_of)),
    Registration("TaintNodesByCondition", lambda setup: TaintNodesByCondition(setup.names)),
    Registration("PodSecurity", lambda setup: PodSecurity(setup.names)),
    Registration("Priority", lambda setup: Priority(setup.names)),
    Registration(
        "DefaultTolerationSeconds", lambda setup: DefaultTolerationSeconds(setup.names, setup.defaults)
    ),
    Registration("RuntimeClass", lambda setup: RuntimeClass()),
    Registration("DefaultIngressClass", lambda setup: DefaultIngressClass(setup.names)),
    Registration(RESOURCE_QUOTA, None),  # see `quota_charge`
)


def plugin_names() -> tuple[str, ...]:
    """The names of all admission plugins, in order."""
    return tuple(plugin.name for plugin in PLUGINS)


Mutate = Callable[[Attributes, Obj, View], Obj | Denial]
Validate = Callable[[Attributes, Obj, View], Denial | None]


class Chain:
    """The plugins of `PLUGINS` that are not disabled, in order.

    suffix_of: see `Setup`.  A function of both its arguments and not a draw, because pods of one
        template share what was admitted once, and a memo that drops an entry must not change a
        result.
    disabled: names of plugins that are off
    """

    def __init__(
        self,
        names: Names,
        suffix_of: Callable[[Obj, Obj], str],
        disabled: Iterable[str] = (),
        defaults: Defaults | None = None,
    ) -> None:
        off = tuple(disabled)
        setup = Setup(names, suffix_of, defaults or Defaults())
        self._on = [make(setup) for name, make in PLUGINS if make is not None and name not in off]
        self._plans: dict[tuple[str, str, str], tuple[list[Mutate], list[Validate]]] = {}

    def plan(self, operation: str, plural: str, subresource: str) -> tuple[list[Mutate], list[Validate]]:
        """The steps of both passes that requests of this kind go through."""
        kind = (operation, plural, subresource)
        known = self._plans.get(kind)
        if known is None:
            known = self._plans[kind] = (
                [p.mutate for p in self._on if p.concerns(*kind)],
                [p.validate for p in self._on if isinstance(p, ValidatingPlugin) and p.judges(*kind)],
            )
        return known

    def mutate(self, attributes: Attributes, obj: Obj, view: View) -> Obj | Denial:
        """The object after all plugins, or the first refusal. For delete, `obj` is the stored
        object.
        """
        kind = (attributes.operation, attributes.resource.rule, attributes.subresource)
        for step in self.plan(*kind)[0]:
            result = step(attributes, obj, view)
            if isinstance(result, Denial):
                return result
            obj = result
        return obj

    def validate(self, attributes: Attributes, obj: Obj, view: View) -> Denial | None:
        """The first refusal of the object as it would be stored."""
        kind = (attributes.operation, attributes.resource.rule, attributes.subresource)
        for step in self.plan(*kind)[1]:
            denial = step(attributes, obj, view)
            if denial is not None:
                return denial
        return None
