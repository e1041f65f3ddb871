"""What each kind does to an object on its way into the store, beside defaults and validation.

Turns (new object, old object) into the object to store: fields a write may not set go back to what they were,
status is kept apart from the rest, `metadata.generation` counts changes of what is wanted.

Holds: no object handed in is changed; a main write never changes status, a status write never spec; an object
equal to the stored one before is equal to it afterwards.

Mirrors  kubernetes v1.25 pkg/registry/*/*/strategy.go, apiserver pkg/registry/rest/{create,update}.go.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass

from sim.api.crd import definition_form
from sim.api.kinds.forms.autoscalers import is_cpu_share, is_first, to_first, to_second
from sim.api.kinds.gated_fields import without_disabled
from sim.api.schema.scheme import CUSTOM, CUSTOM_WITH_STATUS
from sim.api.types import Json, Obj
from sim.ident import Names
from sim.units import quantity_nano

EMPTY: Obj = {}
Prepare = Callable[[Obj, Names], Obj]
PrepareUpdate = Callable[[Obj, Obj, Names], Obj]
# Fields of a status that upstream writes even when zero.
_ZERO_STATUS: dict[str, Obj] = {
    "replicasets": {"replicas": 0},
    "replicationcontrollers": {"replicas": 0},
    "statefulsets": {"replicas": 0, "availableReplicas": 0},
    "daemonsets": {
        "currentNumberScheduled": 0,
        "desiredNumberScheduled": 0,
        "numberMisscheduled": 0,
        "numberReady": 0,
    },
    "poddisruptionbudgets": {
        "currentHealthy": 0,
        "desiredHealthy": 0,
        "disruptionsAllowed": 0,
        "expectedPods": 0,
    },
    "services": {"loadBalancer": {}},
    "ingresses": {"loadBalancer": {}},
    "persistentvolumeclaims": {"phase": "Pending"},
    "namespaces": {"phase": "Active"},
    "horizontalpodautoscalers": {"desiredReplicas": 0, "currentMetrics": None},
}


def _same(obj: Obj, _: Names) -> Obj:
    return obj


def _same_update(new: Obj, _old: Obj, _names: Names) -> Obj:
    return new


@dataclass(frozen=True, slots=True)
class Strategy:
    """How one kind differs from the rule.

    status: it has a status subresource; generation: what it counts ("", "spec", "spec+annotations", "template", "all",
    "content", "one")
    create_by_put: a PUT to a missing name creates; unconditional: a PUT without resourceVersion is let through
    """

    status: bool = False
    generation: str = ""
    create_by_put: bool = False
    unconditional: bool = True
    graceful: bool = False
    default_propagation: str = "Background"
    prepare_create: Prepare = _same
    prepare_update: PrepareUpdate = _same_update
    prepare_status: PrepareUpdate = _same_update


def with_field(obj: Obj, name: str, value: Json) -> Obj:
    """`obj` with a top-level field as given, or without it (None)."""
    if value is None:
        return {k: v for k, v in obj.items() if k != name} if name in obj else obj
    return obj if name in obj and obj[name] is value else {**obj, name: value}


def with_metadata(obj: Obj, **fields: Json) -> Obj:
    """`obj` with these metadata fields set, or removed where None."""
    metadata = {**obj["metadata"], **fields}
    for name, value in fields.items():
        if value is None:
            del metadata[name]
    return {**obj, "metadata": metadata}


# --- pods -------------------------------------------------------------------------------------------------


def qos_class(spec: Obj) -> str:
    """Guaranteed, Burstable or BestEffort by cpu and memory of all containers."""
    requests: dict[str, int] = {}
    limits: dict[str, int] = {}
    guaranteed = True
    for container in (*(spec.get("containers") or ()), *(spec.get("initContainers") or ())):
        resources = container.get("resources") or EMPTY
        seen = 0
        for name, total in (("requests", requests), ("limits", limits)):
            for resource, text in (resources.get(name) or EMPTY).items():
                if resource in ("cpu", "memory") and (nano := quantity_nano(text)):
                    total[resource] = total.get(resource, 0) + nano
                    seen += name == "limits"
        guaranteed = guaranteed and seen == 2
    if not requests and not limits:
        return "BestEffort"
    return "Guaranteed" if guaranteed and requests == limits else "Burstable"


_qos_memo: dict[int, tuple[Json, str]] = {}


def _qos_of(spec: Obj) -> str:
    """As `qos_class`, remembered by the identity of the container list that pods of one template share."""
    containers = spec.get("containers")
    if spec.get("initContainers"):
        return qos_class(spec)
    known = _qos_memo.get(id(containers))
    if known is not None and known[0] is containers:
        return known[1]
    if len(_qos_memo) > 1024:
        _qos_memo.clear()
    answer = qos_class(spec)
    _qos_memo[id(containers)] = (containers, answer)
    return answer


def _pod_create(obj: Obj, _: Names) -> Obj:
    return {**obj, "status": {"phase": "Pending", "qosClass": _qos_of(obj.get("spec") or EMPTY)}}


def _pod_status(new: Obj, old: Obj, _: Names) -> Obj:
    owners = old["metadata"].get("ownerReferences")
    if new["metadata"].get("ownerReferences") != owners:
        new = with_metadata(new, ownerReferences=owners)
    return new


# --- claims -----------------------------------------------------------------------------------------------


def _claim_sources(obj: Obj, old: Obj, names: Names) -> Obj:
    """dataSource and dataSourceRef say the same.  Quirk: a dataSource of any kind but two is dropped without a word."""
    spec = obj.get("spec") or EMPTY
    source, ref = spec.get("dataSource"), spec.get("dataSourceRef")
    if source is None and ref is None:
        return obj
    kept = ref is not None or (old.get("spec") or EMPTY).get("dataSource") is not None
    if source is not None and not kept and not _is_claim_or_snapshot(source, names):
        return {**obj, "spec": {k: v for k, v in spec.items() if k != "dataSource"}}
    if source is None or ref is None:
        return {**obj, "spec": {**spec, "dataSource": source or ref, "dataSourceRef": ref or source}}
    return obj


def _is_claim_or_snapshot(source: Obj, names: Names) -> bool:
    known = (("PersistentVolumeClaim", ""), ("VolumeSnapshot", names.group("snapshot.storage")))
    return (source.get("kind"), source.get("apiGroup") or "") in known


# --- other kinds ------------------------------------------------------------------------------------------


def _namespace_create(obj: Obj, names: Names) -> Obj:
    spec = obj.get("spec") or EMPTY
    finalizers = spec.get("finalizers") or []
    if names.finalizer_namespace not in finalizers:
        finalizers = [*finalizers, names.finalizer_namespace]
    return namespace_label({**obj, "spec": {**spec, "finalizers": finalizers}}, names)


def namespace_label(obj: Obj, names: Names) -> Obj:
    """The label with the namespace's own name, which nobody can take away."""
    metadata = obj["metadata"]
    name, labels = metadata.get("name", ""), metadata.get("labels") or EMPTY
    if not name or labels.get(names.label_metadata_name) == name:
        return obj
    return with_metadata(obj, labels={**labels, names.label_metadata_name: name})


def _namespace_update(new: Obj, old: Obj, names: Names) -> Obj:
    return with_field(namespace_label(new, names), "spec", old.get("spec"))


def for_finalize(new: Obj, old: Obj, names: Names) -> Obj:
    """Prepare a write to /finalize of a namespace: the only one that changes spec.finalizers."""
    finalizers = (new.get("spec") or EMPTY).get("finalizers")
    spec = {"finalizers": finalizers} if finalizers else EMPTY
    return {**namespace_label(new, names), "spec": spec, "status": old.get("status")}


def for_ephemeral(new: Obj, old: Obj) -> Obj:
    """Prepare a write to /ephemeralcontainers of a pod: that list, and its own version, are all it says."""
    listed = (new.get("spec") or EMPTY).get("ephemeralContainers")
    before = old.get("spec") or EMPTY
    if listed == before.get("ephemeralContainers"):
        return old
    return {**old, "spec": with_field(before, "ephemeralContainers", listed)}


def template_generation(obj: Obj, names: Names, old: Obj | None = None) -> Obj:
    """A DaemonSet's annotation that counts the versions of its template."""
    name = names.annotation_template_generation
    annotations = obj["metadata"].get("annotations") or EMPTY
    if old is None:
        count = annotations.get(name) or "1"
    else:
        count = (old["metadata"].get("annotations") or EMPTY).get(name, "1")
        template, before = (((o.get("spec") or EMPTY).get("template")) for o in (obj, old))
        if template is not before and template != before:
            count = str(int(count) + 1)
    return (
        obj
        if annotations.get(name) == count
        else with_metadata(obj, annotations={**annotations, name: count})
    )


def _daemon_set_update(new: Obj, old: Obj, names: Names) -> Obj:
    return template_generation(new, names, old)


def _deployment_status(new: Obj, old: Obj, _: Names) -> Obj:
    labels = old["metadata"].get("labels")
    return new if new["metadata"].get("labels") == labels else with_metadata(new, labels=labels)


def _slice_prepare(obj: Obj, _: Names) -> Obj:
    """What endpoints say of their topology in the words of the older version nobody writes in this one."""
    points = obj.get("endpoints") or ()
    if not any("deprecatedTopology" in point for point in points):
        return obj
    return {**obj, "endpoints": [with_field(point, "deprecatedTopology", None) for point in points]}


def _secret_update(new: Obj, old: Obj, _: Names) -> Obj:
    return new if new.get("type") else {**new, "type": old.get("type", "Opaque")}


def _service_account_prepare(obj: Obj, _: Names) -> Obj:
    secrets = obj.get("secrets")
    return {**obj, "secrets": [{"name": s.get("name", "")} for s in secrets]} if secrets else obj


def _job_create(obj: Obj, names: Names) -> Obj:
    """A Job selects its pods by its own uid, unless its maker insists; its pods are tracked by a finalizer."""
    meta, spec = obj["metadata"], obj.get("spec") or EMPTY
    annotations = {**(meta.get("annotations") or EMPTY), names.annotation_job_tracking: ""}
    given = ((spec.get("template") or EMPTY).get("metadata") or EMPTY).get("labels")
    if not spec.get("manualSelector"):
        uid = meta["uid"]
        template = spec.get("template") or EMPTY
        about = template.get("metadata") or EMPTY
        labels = {"job-name": meta.get("name", ""), "controller-uid": uid, **(about.get("labels") or EMPTY)}
        selector = spec.get("selector") or EMPTY
        if "controller-uid" not in (selector.get("matchLabels") or EMPTY):
            selector = {
                **selector,
                "matchLabels": {**(selector.get("matchLabels") or EMPTY), "controller-uid": uid},
            }
        template = {**template, "metadata": {**about, "labels": labels}}
        spec = {**spec, "selector": selector, "template": template}
    own = meta.get("labels")
    if not own or own is given:
        # Quirk: labels that defaulting took over are the template's own, so what is generated appears in both
        own = ((spec.get("template") or EMPTY).get("metadata") or EMPTY).get("labels")
    return with_metadata({**obj, "spec": spec}, annotations=annotations, labels=own)


def _autoscaler(obj: Obj, names: Names) -> Obj:
    """As it comes back from the store, where what v1 says in annotations is read."""
    if is_first(obj):
        return to_first(_cpu_last(to_second(obj, names)), names)
    return _cpu_last(obj)


def _cpu_last(obj: Obj) -> Obj:
    """Quirk: upstream stores the first version, which keeps the share of cpu apart: it is the last metric then."""
    metrics: list[Obj] = (obj.get("spec") or EMPTY).get("metrics") or []
    apart = [metric for metric in metrics if is_cpu_share(metric)]
    if not apart or apart[0] is metrics[-1]:
        return obj
    return {
        **obj,
        "spec": {**obj["spec"], "metrics": [*(m for m in metrics if m is not apart[0]), apart[0]]},
    }


def warnings_of(plural: str, obj: Obj, names: Names) -> tuple[str, ...]:
    """What a kind has to say about an object that is written (WarningsOnCreate, WarningsOnUpdate)."""
    if plural == "customresourcedefinitions":
        return definition_form.unevaluated(obj)
    if plural != "cronjobs" or "TZ" not in (obj.get("spec") or EMPTY).get("schedule", ""):
        return ()
    page = f"https://{names.domain}/docs/concepts/workloads/controllers/cron-jobs/"
    # Quirk: the path says spec twice
    return (
        f"CRON_TZ or TZ used in spec.spec.schedule is not officially supported, see {page} for more details",
    )


def _without_status(obj: Obj, _: Names) -> Obj:
    return with_field(obj, "status", None)


def _only_status(new: Obj, old: Obj, _: Names) -> Obj:
    """Quirk: of a custom resource not even labels change through /status."""
    return with_field(old, "status", None if new.get("status") is EMPTY else new["status"])


_RULE = Strategy()
_WORKLOAD = Strategy(status=True, generation="spec")
_FLOW = Strategy(
    status=True,
    generation="spec",
    prepare_status=lambda new, old, _: with_field(new, "metadata", old["metadata"]),
)
_TABLE: dict[str, Strategy] = {
    "pods": Strategy(status=True, graceful=True, prepare_create=_pod_create, prepare_status=_pod_status),
    "namespaces": Strategy(status=True, prepare_create=_namespace_create, prepare_update=_namespace_update),
    "nodes": Strategy(status=True),
    "services": Strategy(status=True, create_by_put=True),
    "persistentvolumeclaims": Strategy(
        status=True,
        prepare_create=lambda obj, names: _claim_sources(obj, EMPTY, names),
        prepare_update=_claim_sources,
    ),
    "replicasets": _WORKLOAD,
    "statefulsets": _WORKLOAD,
    "daemonsets": Strategy(
        status=True, generation="spec", prepare_update=_daemon_set_update, prepare_status=_daemon_set_update
    ),
    "deployments": Strategy(status=True, generation="spec+annotations", prepare_status=_deployment_status),
    "poddisruptionbudgets": Strategy(status=True, generation="spec", unconditional=False),
    "replicationcontrollers": Strategy(status=True, generation="spec", default_propagation="Orphan"),
    "jobs": Strategy(
        status=True, generation="spec", default_propagation="Orphan", prepare_create=_job_create
    ),
    "resourcequotas": Strategy(status=True),
    "horizontalpodautoscalers": Strategy(
        status=True,
        prepare_create=_autoscaler,
        prepare_update=lambda new, _old, names: _autoscaler(new, names),
    ),
    "cronjobs": _WORKLOAD,
    "podtemplates": Strategy(generation="template"),
    "ingresses": _WORKLOAD,
    "ingressclasses": Strategy(generation="spec"),
    "networkpolicies": Strategy(
        generation="spec",
        # Their status is behind a feature that is off, and shown empty.
        prepare_create=lambda obj, _: with_field(obj, "status", EMPTY),
        prepare_update=lambda new, _old, _names: with_field(new, "status", EMPTY),
        prepare_status=lambda new, _old, _names: with_field(new, "status", EMPTY),
    ),
    "endpointslices": Strategy(
        generation="all",
        prepare_create=_slice_prepare,
        prepare_update=lambda new, _old, names: _slice_prepare(new, names),
    ),
    "flowschemas": _FLOW,
    "prioritylevelconfigurations": _FLOW,
    "priorityclasses": Strategy(generation="one"),
    "secrets": Strategy(prepare_update=_secret_update),
    "serviceaccounts": Strategy(
        prepare_create=_service_account_prepare,
        prepare_update=lambda new, _old, names: _service_account_prepare(new, names),
    ),
    "endpoints": Strategy(create_by_put=True),
    "events": Strategy(create_by_put=True),
    "limitranges": Strategy(create_by_put=True),
    "leases": Strategy(create_by_put=True, unconditional=False),
    "customresourcedefinitions": Strategy(
        status=True,
        generation="spec",
        unconditional=False,
        prepare_create=definition_form.prepare_create,
        prepare_update=definition_form.prepare_update,
    ),
    CUSTOM: Strategy(generation="content", unconditional=False),
    CUSTOM_WITH_STATUS: Strategy(
        status=True,
        generation="content",
        unconditional=False,
        prepare_create=_without_status,
        prepare_status=_only_status,
    ),
    "runtimeclasses": Strategy(create_by_put=True, unconditional=False, generation=""),
}


def strategy_of(plural: str) -> Strategy:
    return _TABLE.get(plural, _RULE)


# --- the rule ---------------------------------------------------------------------------------------------


def zero_status(plural: str) -> Obj:
    return _ZERO_STATUS.get(plural, EMPTY)


def for_create(plural: str, obj: Obj, names: Names, gates: Collection[str] = ()) -> Obj:
    """Prepare a new object: its status is nobody's to give, its generation starts at one.

    gates: of features that are on though they are off by default
    """
    strategy = strategy_of(plural)
    if strategy.status and plural != "nodes":  # a node agent registers with its status
        obj = {**obj, "status": zero_status(plural)}
    obj = strategy.prepare_create(_gated(plural, obj, EMPTY, names, gates), names)
    return with_metadata(obj, generation=1) if strategy.generation else obj


def _gated(plural: str, new: Obj, old: Obj, names: Names, gates: Collection[str]) -> Obj:
    """Without fields of features that are off, also where an older form says them in annotations."""
    if plural != "horizontalpodautoscalers" or not is_first(new):
        return without_disabled(plural, new, old, gates)
    read = to_second(new, names)
    kept = without_disabled(plural, read, to_second(old, names) if is_first(old) else old, gates)
    return new if kept is read else to_first(kept, names)


def for_update(plural: str, new: Obj, old: Obj, names: Names, gates: Collection[str] = ()) -> Obj:
    """Prepare a write to the main resource; `gates` as for a new one."""
    strategy = strategy_of(plural)
    if strategy.status:
        new = with_field(new, "status", old.get("status"))
    new = strategy.prepare_update(_gated(plural, new, old, names, gates), old, names)
    return _count(strategy.generation, new, old)


def for_status(plural: str, new: Obj, old: Obj, names: Names) -> Obj:
    """Prepare a write to /status: everything but status and part of the metadata stays."""
    if "status" not in new:
        new = {**new, "status": zero_status(plural)}
    status = new["status"]
    kept = {**old, "metadata": new["metadata"], "status": status}
    return strategy_of(plural).prepare_status(kept, old, names)


def _count(rule: str, new: Obj, old: Obj) -> Obj:
    changed = False
    if rule == "template":
        changed = new.get(rule) != old.get(rule)
    elif rule in ("spec", "spec+annotations"):
        changed = new.get("spec") is not old.get("spec") and new.get("spec") != old.get("spec")
        if not changed and rule == "spec+annotations":
            changed = new["metadata"].get("annotations") != old["metadata"].get("annotations")
    elif rule == "content":
        changed = _content(new) != _content(old)
    elif rule == "all":
        changed = {k: v for k, v in new.items() if k != "metadata"} != {
            k: v for k, v in old.items() if k != "metadata"
        } or new["metadata"].get("labels") != old["metadata"].get("labels")
    if not changed:
        return new
    return with_metadata(new, generation=old["metadata"].get("generation", 0) + 1)


def _content(obj: Obj) -> Obj:
    return {k: v for k, v in obj.items() if k != "metadata"}


def keep_system_fields(new: Obj, old: Obj) -> Obj:
    """What an update leaves out, or may not touch, goes back to what it was; validation sees what it changes.

    Mirrors rest.BeforeUpdate and ValidateObjectMetaAccessorUpdate, which fill before they compare.
    """
    before, now = old["metadata"], new["metadata"]
    if now is before:
        return new
    wrong = {}
    for name in ("uid", "deletionGracePeriodSeconds"):
        if name in before and now.get(name) is None:
            wrong[name] = before[name]
    for name in ("generation", "creationTimestamp"):
        if now.get(name) != before.get(name):
            wrong[name] = before.get(name)
    deleted = before.get("deletionTimestamp")
    if deleted and now.get("deletionTimestamp") != deleted:
        wrong["deletionTimestamp"] = deleted
    return with_metadata(new, **wrong) if wrong else new
