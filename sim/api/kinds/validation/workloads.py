"""ReplicaSets, Deployments, StatefulSets, DaemonSets, ControllerRevisions.

Mirrors  kubernetes v1.25 pkg/apis/apps/validation/validation.go, pkg/registry/apps/*/strategy.go (which check an
         update twice for all of them but Deployments: the causes then appear twice).
"""

from __future__ import annotations

from typing import Any

from sim.api.kinds.validation import text
from sim.api.kinds.validation.errors import (
    IMMUTABLE,
    Errors,
    Shown,
    at_least_zero,
    forbidden,
    go_map,
    invalid,
    required,
    unsupported,
)
from sim.api.kinds.validation.meta import (
    annotation_map,
    go_selector,
    immutable_selector,
    is_sound,
    label_selector,
    labels,
    matches,
    object_meta,
    object_meta_update,
)
from sim.api.kinds.validation.pods.pod import template
from sim.api.schema.json_text import go_quote
from sim.api.types import Obj
from sim.units import parse_whole

_MISMATCH = "`selector` does not match template `labels`"
_STATEFUL_FORBIDDEN = (
    "updates to statefulset spec for fields other than 'replicas', 'template', 'updateStrategy',"
    " 'persistentVolumeClaimRetentionPolicy' and 'minReadySeconds' are forbidden"
)
_STATEFUL_FREE = (
    "replicas",
    "template",
    "updateStrategy",
    "persistentVolumeClaimRetentionPolicy",
    "minReadySeconds",
)

_RETENTIONS = ("Retain", "Delete")


def _spec(obj: Obj) -> Obj:
    return obj.get("spec") or {}


def _is_empty(selector: Obj) -> bool:
    return not selector.get("matchLabels") and not selector.get("matchExpressions")


def _selector(spec: Obj, kind: str) -> Errors:
    selector = spec.get("selector")
    if selector is None:
        return [required("spec.selector")]
    errors = label_selector(selector, "spec.selector")
    if _is_empty(selector):
        detail = f"empty selector is invalid for {kind}"
        errors.append(invalid("spec.selector", go_selector(selector), detail))
    return errors


def _mismatch(spec: Obj) -> Errors:
    """Quirk: an empty selector matches; none at all matches nothing."""
    selector = spec.get("selector")
    given = ((spec.get("template") or {}).get("metadata") or {}).get("labels")
    if matches(selector, given):
        return []
    return [invalid("spec.template.metadata.labels", go_map(given), _MISMATCH)]


def _always_running(spec: Obj, kind: str) -> Errors:
    pod = (spec.get("template") or {}).get("spec") or {}
    errors: Errors = []
    policy = pod.get("restartPolicy", "")
    if policy != "Always":
        errors.append(unsupported("spec.template.spec.restartPolicy", policy, ("Always",)))
    if pod.get("activeDeadlineSeconds") is not None:
        detail = f"activeDeadlineSeconds in {kind} is not Supported"
        errors.append(forbidden("spec.template.spec.activeDeadlineSeconds", detail))
    return errors


def _read_only_disks(spec: Obj, replicas: int) -> Errors:
    """What several pods mount at once must be mounted read-only."""
    if replicas <= 1:
        return []
    volumes = ((spec.get("template") or {}).get("spec") or {}).get("volumes") or ()
    detail = "must be true for replicated pods > 1; GCE PD can only be mounted on multiple machines if it is read-only"
    return [
        invalid(f"spec.template.spec.volumes[{i}].gcePersistentDisk.readOnly", False, detail)
        for i, volume in enumerate(volumes)
        if volume.get("gcePersistentDisk") and not volume["gcePersistentDisk"].get("readOnly")
    ]


def _set_template(spec: Obj) -> Errors:
    if not is_sound(spec.get("selector")):
        return [invalid("spec.selector", go_selector(spec["selector"]), "invalid label selector")]
    errors = _mismatch(spec)
    errors += template(spec.get("template") or {}, "spec.template")
    return errors + _read_only_disks(spec, spec.get("replicas") or 0) + _always_running(spec, "ReplicaSet")


# --- ReplicationController --------------------------------------------------------------------------------


def _controller_spec(spec: Obj) -> Errors:
    errors = at_least_zero("spec.minReadySeconds", spec.get("minReadySeconds"))
    selector, given = spec.get("selector"), spec.get("template")
    if not selector:
        errors.append(required("spec.selector"))
    errors += at_least_zero("spec.replicas", spec.get("replicas"))
    if given is None:
        return [*errors, required("spec.template")]
    found = (given.get("metadata") or {}).get("labels") or {}
    if any(found.get(key) != value for key, value in (selector or {}).items()):
        errors.append(invalid("spec.template.metadata.labels", go_map(found), _MISMATCH))
    errors += template(given, "spec.template")
    return (
        errors
        + _read_only_disks(spec, spec.get("replicas") or 0)
        + _always_running(spec, "ReplicationController")
    )


def create_controller(obj: Obj) -> Errors:
    return object_meta(obj["metadata"], True, text.subdomain) + _controller_spec(_spec(obj))


def update_controller(new: Obj, old: Obj) -> Errors:
    if new["metadata"] is old["metadata"] and _spec(new) is _spec(old):
        return []
    return (
        create_controller(new)
        + object_meta_update(new["metadata"], old["metadata"])
        + _controller_spec(_spec(new))
    )


# --- ReplicaSet -------------------------------------------------------------------------------------------


def _replica_set_spec(spec: Obj) -> Errors:
    errors = at_least_zero("spec.replicas", spec.get("replicas"))
    errors += at_least_zero("spec.minReadySeconds", spec.get("minReadySeconds"))
    errors += _selector(spec, "deployment")
    return errors + _set_template(spec)


def create_pod_template(obj: Obj) -> Errors:
    return object_meta(obj["metadata"], True, text.subdomain) + template(
        obj.get("template") or {}, "template"
    )


def update_pod_template(new: Obj, old: Obj) -> Errors:
    errors = object_meta_update(new["metadata"], old["metadata"])
    return errors + template(new.get("template") or {}, "template")


def create_replica_set(obj: Obj) -> Errors:
    return object_meta(obj["metadata"], True, text.subdomain) + _replica_set_spec(_spec(obj))


def update_replica_set(new: Obj, old: Obj) -> Errors:
    if new["metadata"] is not old["metadata"] or _spec(new) is not _spec(old):
        errors = create_replica_set(new)
        errors += object_meta_update(new["metadata"], old["metadata"])
        errors += _replica_set_spec(_spec(new))
        return errors + immutable_selector(_spec(new).get("selector"), _spec(old).get("selector"))
    return []


_SET_COUNTERS = (
    "replicas",
    "fullyLabeledReplicas",
    "readyReplicas",
    "availableReplicas",
    "observedGeneration",
)


def _counters(status: Obj, keys: tuple[str, ...]) -> Errors:
    return [e for key in keys for e in at_least_zero(f"status.{key}", status.get(key))]


def _bounded(status: Obj, keys: tuple[str, ...], by: str, detail: str) -> Errors:
    bound = status.get(by, 0)
    return [
        invalid(f"status.{key}", status.get(key, 0), detail) for key in keys if status.get(key, 0) > bound
    ]


def status_replica_set(new: Obj, old: Obj) -> Errors:
    status = new.get("status") or {}
    errors = object_meta_update(new["metadata"], old["metadata"])
    errors += _counters(status, _SET_COUNTERS)
    detail = "cannot be greater than status.replicas"
    errors += _bounded(
        status, ("fullyLabeledReplicas", "readyReplicas", "availableReplicas"), "replicas", detail
    )
    return errors + _bounded(
        status, ("availableReplicas",), "readyReplicas", "cannot be greater than readyReplicas"
    )


# --- Deployment -------------------------------------------------------------------------------------------


def _deployment_spec(spec: Obj) -> Errors:
    errors = at_least_zero("spec.replicas", spec.get("replicas"))
    errors += _selector(spec, "deployment")
    errors += _set_template(spec)
    errors += _strategy(spec.get("strategy") or {})
    ready = spec.get("minReadySeconds", 0)
    errors += at_least_zero("spec.minReadySeconds", ready)
    errors += at_least_zero("spec.revisionHistoryLimit", spec.get("revisionHistoryLimit"))
    deadline = spec.get("progressDeadlineSeconds")
    if deadline is not None:
        errors += at_least_zero("spec.progressDeadlineSeconds", deadline)
        if deadline <= ready:
            errors.append(
                invalid("spec.progressDeadlineSeconds", deadline, "must be greater than minReadySeconds")
            )
    return errors


def _strategy(strategy: Obj) -> Errors:
    kind, rolling = strategy.get("type", ""), strategy.get("rollingUpdate")
    if kind == "Recreate":
        if rolling is None:
            return []
        detail = "may not be specified when strategy `type` is 'Recreate'"
        return [forbidden("spec.strategy.rollingUpdate", detail)]
    if kind == "RollingUpdate":
        if rolling is None:
            return [required("spec.strategy.rollingUpdate", "this should be defaulted and never be nil")]
        return _rolling_update(rolling, "spec.strategy.rollingUpdate")
    return [unsupported("spec.strategy.type", kind, ("Recreate", "RollingUpdate"))]


def int_or_percent(value: Any, field: str) -> Errors:
    """A count or a percentage, not negative."""
    if isinstance(value, str):
        return [invalid(field, value, problem) for problem in text.percent(value)]
    return at_least_zero(field, value or 0)


def go_int_or_string(value: Any) -> Shown:
    is_text = isinstance(value, str)
    number, string = (0, value) if is_text else (value, "")
    return Shown(f"intstr.IntOrString{{Type:{int(is_text)}, IntVal:{number}, StrVal:{go_quote(string)}}}")


def not_above_all(value: Any, field: str) -> Errors:
    share = text.percent_of(value)
    if share is None or share <= 100:
        return []
    return [invalid(field, go_int_or_string(value), "must not be greater than 100%")]


def _is_zero(value: Any) -> bool:
    """Also a text that is no number, which counts as none."""
    if isinstance(value, str):
        share = text.percent_of(value)
        value = parse_whole(value) if share is None else share
    return not value


def _rolling_update(rolling: Obj, field: str) -> Errors:
    unavailable, surge = rolling.get("maxUnavailable", 0), rolling.get("maxSurge", 0)
    errors = int_or_percent(unavailable, f"{field}.maxUnavailable") + int_or_percent(
        surge, f"{field}.maxSurge"
    )
    if _is_zero(unavailable) and _is_zero(surge):
        errors.append(invalid(f"{field}.maxUnavailable", unavailable, "may not be 0 when `maxSurge` is 0"))
    return errors + not_above_all(unavailable, f"{field}.maxUnavailable")


def create_deployment(obj: Obj) -> Errors:
    return object_meta(obj["metadata"], True, text.subdomain) + _deployment_spec(_spec(obj))


def update_deployment(new: Obj, old: Obj) -> Errors:
    errors = object_meta_update(new["metadata"], old["metadata"])
    if _spec(new) is _spec(old):
        return errors
    errors += _deployment_spec(_spec(new))
    return errors + immutable_selector(_spec(new).get("selector"), _spec(old).get("selector"))


_DEPLOYMENT_COUNTERS = (
    "observedGeneration",
    "replicas",
    "updatedReplicas",
    "readyReplicas",
    "availableReplicas",
    "unavailableReplicas",
)


def status_deployment(new: Obj, old: Obj) -> Errors:
    status, was = new.get("status") or {}, old.get("status") or {}
    errors = object_meta_update(new["metadata"], old["metadata"])
    errors += _counters(status, (*_DEPLOYMENT_COUNTERS, "collisionCount"))
    detail = "cannot be greater than status.replicas"
    errors += _bounded(status, ("updatedReplicas", "readyReplicas", "availableReplicas"), "replicas", detail)
    errors += _bounded(
        status, ("availableReplicas",), "readyReplicas", "cannot be greater than readyReplicas"
    )
    return errors + _collisions(status, was)


def _collisions(status: Obj, was: Obj) -> Errors:
    """The number of hash collisions only grows."""
    new, old = status.get("collisionCount"), was.get("collisionCount")
    if old is None or (new is not None and new >= old):
        return []
    shown = 0 if new is None else new
    return [invalid("status.collisionCount", shown, "cannot be decremented")]


# --- StatefulSet ------------------------------------------------------------------------------------------


def _stateful_spec(spec: Obj) -> Errors:
    errors = _management(spec.get("podManagementPolicy", ""))
    errors += _stateful_strategy(spec.get("updateStrategy") or {})
    errors += _retention(spec.get("persistentVolumeClaimRetentionPolicy"))
    errors += at_least_zero("spec.replicas", spec.get("replicas"))
    errors += at_least_zero("spec.minReadySeconds", spec.get("minReadySeconds"))
    errors += _selector(spec, "statefulset")
    if not is_sound(spec.get("selector")):
        errors.append(invalid("spec.selector", go_selector(spec["selector"]), ""))
    else:
        errors += _mismatch(spec)
        # Quirk: of the template only its metadata is checked.
        metadata = (spec.get("template") or {}).get("metadata") or {}
        errors += labels(metadata.get("labels"), "spec.template.labels")
        errors += annotation_map(metadata.get("annotations"), "spec.template.annotations")
    return errors + _always_running(spec, "StatefulSet")


def _management(policy: str) -> Errors:
    if not policy:
        return [required("spec.podManagementPolicy")]
    if policy in ("OrderedReady", "Parallel"):
        return []
    return [invalid("spec.podManagementPolicy", policy, "must be 'OrderedReady' or 'Parallel'")]


def _stateful_strategy(strategy: Obj) -> Errors:
    kind, rolling = strategy.get("type", ""), strategy.get("rollingUpdate")
    field = "spec.updateStrategy"
    if not kind:
        return [required(field)]
    if kind == "OnDelete":
        if rolling is None:
            return []
        return [
            invalid(
                f"{field}.rollingUpdate",
                _go_rolling(rolling),
                "only allowed for updateStrategy 'RollingUpdate'",
            )
        ]
    if kind != "RollingUpdate":
        return [invalid(field, _go_strategy(strategy), "must be 'RollingUpdate' or 'OnDelete'")]
    return _stateful_rolling(rolling or {}, f"{field}.rollingUpdate")


def _stateful_rolling(rolling: Obj, field: str) -> Errors:
    errors = at_least_zero(f"{field}.partition", rolling.get("partition"))
    unavailable, at = rolling.get("maxUnavailable"), f"{field}.maxUnavailable"
    if unavailable is None:
        return errors
    errors += int_or_percent(unavailable, at)
    if _is_zero(unavailable):
        errors.append(invalid(at, go_int_or_string(unavailable), "cannot be 0"))
    return errors + not_above_all(unavailable, at)


def _retention(policy: Obj | None) -> Errors:
    """What becomes of claims when their set is deleted or scaled down."""
    if policy is None:
        return []
    return [
        unsupported(f"spec.persistentVolumeClaimRetentionPolicy.{when}", policy.get(when, ""), _RETENTIONS)
        for when in ("whenDeleted", "whenScaled")
        if policy.get(when, "") not in _RETENTIONS
    ]


def _go_rolling(rolling: Obj) -> Shown:
    unavailable = "nil" if rolling.get("maxUnavailable") is None else "0xc000000000"
    unavailable = f"(*intstr.IntOrString)({unavailable})"
    return Shown(
        f"apps.RollingUpdateStatefulSetStrategy{{Partition:{rolling.get('partition', 0)}, MaxUnavailable:{unavailable}}}"
    )


def _go_strategy(strategy: Obj) -> Shown:
    return Shown(
        f"apps.StatefulSetUpdateStrategy{{Type:{go_quote(strategy.get('type', ''))},"
        " RollingUpdate:(*apps.RollingUpdateStatefulSetStrategy)(nil)}"
    )


def create_stateful_set(obj: Obj) -> Errors:
    return object_meta(obj["metadata"], True, text.subdomain) + _stateful_spec(_spec(obj))


def update_stateful_set(new: Obj, old: Obj) -> Errors:
    if new["metadata"] is old["metadata"] and _spec(new) is _spec(old):
        return []
    errors = create_stateful_set(new)
    errors += object_meta_update(new["metadata"], old["metadata"])
    spec, before = _spec(new), _spec(old)
    if {k: v for k, v in spec.items() if k not in _STATEFUL_FREE} != {
        k: v for k, v in before.items() if k not in _STATEFUL_FREE
    }:
        errors.append(forbidden("spec", _STATEFUL_FORBIDDEN))
    errors += at_least_zero("spec.replicas", spec.get("replicas"))
    return errors + at_least_zero("spec.minReadySeconds", spec.get("minReadySeconds"))


_STATEFUL_COUNTERS = (
    "replicas",
    "readyReplicas",
    "currentReplicas",
    "updatedReplicas",
    "availableReplicas",
    "observedGeneration",
    "collisionCount",
)


def status_stateful_set(new: Obj, old: Obj) -> Errors:
    status = new.get("status") or {}
    errors = _counters(status, _STATEFUL_COUNTERS)
    detail = "cannot be greater than status.replicas"
    keys = ("readyReplicas", "currentReplicas", "updatedReplicas", "availableReplicas")
    errors += _bounded(status, keys, "replicas", detail)
    detail = "cannot be greater than status.readyReplicas"
    errors += _bounded(status, ("availableReplicas",), "readyReplicas", detail)
    return errors + object_meta_update(new["metadata"], old["metadata"])


# --- DaemonSet --------------------------------------------------------------------------------------------


def _daemon_spec(spec: Obj) -> Errors:
    selector = spec.get("selector")
    errors = label_selector(selector, "spec.selector")
    if is_sound(selector):
        errors += _mismatch(spec)
    if selector is not None and _is_empty(selector):
        errors.append(
            invalid("spec.selector", go_selector(selector), "empty selector is invalid for daemonset")
        )
    errors += template(spec.get("template") or {}, "spec.template")
    errors += _read_only_disks(spec, 2)  # on every node
    errors += _always_running(spec, "DaemonSet")
    errors += at_least_zero("spec.minReadySeconds", spec.get("minReadySeconds"))
    errors += _daemon_strategy(spec.get("updateStrategy") or {})
    return errors + at_least_zero("spec.revisionHistoryLimit", spec.get("revisionHistoryLimit"))


def _daemon_strategy(strategy: Obj) -> Errors:
    kind, rolling, field = strategy.get("type", ""), strategy.get("rollingUpdate"), "spec.updateStrategy"
    if kind == "OnDelete":
        return []
    if kind != "RollingUpdate":
        return [unsupported(field, kind, ("RollingUpdate", "OnDelete"))]
    if rolling is None:
        return [required(f"{field}.rollingUpdate")]
    at = f"{field}.rollingUpdate"
    unavailable, surge = rolling.get("maxUnavailable", 0), rolling.get("maxSurge", 0)
    errors = int_or_percent(unavailable, f"{at}.maxUnavailable") + not_above_all(
        unavailable, f"{at}.maxUnavailable"
    )
    errors += int_or_percent(surge, f"{at}.maxSurge") + not_above_all(surge, f"{at}.maxSurge")
    if not _is_zero(unavailable) and not _is_zero(surge):
        errors.append(
            invalid(
                f"{at}.maxSurge", go_int_or_string(surge), "may not be set when maxUnavailable is non-zero"
            )
        )
    if _is_zero(unavailable) and _is_zero(surge):
        errors.append(required(f"{at}.maxUnavailable", "cannot be 0 when maxSurge is 0"))
    return errors


def create_daemon_set(obj: Obj) -> Errors:
    return object_meta(obj["metadata"], True, text.subdomain) + _daemon_spec(_spec(obj))


def update_daemon_set(new: Obj, old: Obj) -> Errors:
    if new["metadata"] is old["metadata"] and _spec(new) is _spec(old):
        return []
    errors = create_daemon_set(new)
    errors += object_meta_update(new["metadata"], old["metadata"])
    errors += _daemon_spec(_spec(new))
    return errors + immutable_selector(_spec(new).get("selector"), _spec(old).get("selector"))


_DAEMON_COUNTERS = (
    "currentNumberScheduled",
    "numberMisscheduled",
    "desiredNumberScheduled",
    "numberReady",
    "observedGeneration",
    "updatedNumberScheduled",
    "numberAvailable",
    "numberUnavailable",
    "collisionCount",
)


def status_daemon_set(new: Obj, old: Obj) -> Errors:
    status, was = new.get("status") or {}, old.get("status") or {}
    errors = object_meta_update(new["metadata"], old["metadata"])
    return errors + _counters(status, _DAEMON_COUNTERS) + _collisions(status, was)


# --- ControllerRevision -----------------------------------------------------------------------------------


def create_controller_revision(obj: Obj) -> Errors:
    errors = object_meta(obj["metadata"], True, text.subdomain)
    if obj.get("data") is None:
        errors.append(required("data", "data is mandatory"))
    return errors + at_least_zero("revision", obj.get("revision"))


def update_controller_revision(new: Obj, old: Obj) -> Errors:
    errors = object_meta_update(new["metadata"], old["metadata"])
    errors += create_controller_revision(new)
    if new.get("data") != old.get("data"):
        errors.append(invalid("data", new.get("data"), IMMUTABLE))
    return errors
