"""StatefulSets.

Mirrors  kubernetes v1.25 pkg/registry/apps/statefulset/strategy.go,
         pkg/apis/apps/validation/validation.go: ValidateStatefulSet and its updates;
         pkg/apis/apps/v1/defaults.go.
"""

from __future__ import annotations

from collections.abc import Collection
from functools import partial

from sim.api.go.printing import INT_OR_STRING, LABEL_SELECTOR, GoValue
from sim.api.kinds.common.cells import AGE, NAME, WIDE, age, container_cells, count
from sim.api.kinds.common.counts import int_or_percent, is_zero, not_above_all
from sim.api.kinds.common.fill import all_of, fill, present, within
from sim.api.kinds.common.pods.defaults import fill_claim, fill_metadata, fill_template
from sim.api.kinds.common.pods.warnings import template_warnings
from sim.api.kinds.common.status import fill_counters
from sim.api.kinds.common.workloads import (
    always_running_errors,
    bound_errors,
    collision_errors,
    counter_errors,
    mismatch_errors,
    selector_errors,
    spec_of,
)
from sim.api.objects import name_of
from sim.api.schema.kind import SCALE, STATUS, Cells, GatedField, Kind, Row, Scaling, Strategy
from sim.api.types import Obj
from sim.api.validation import text
from sim.api.validation.errors import Errors, at_least_zero, forbidden, invalid, required, unsupported
from sim.api.validation.metadata import annotation_map, is_sound, labels, object_meta, object_meta_update
from sim.ident import Names
from sim.options.features.gates import CLAIM_RETENTION, MAX_UNAVAILABLE

# --- defaults -------------------------------------------------------------------------------------


def _fill_defaults(obj: Obj) -> Obj:
    def strategy(value: Obj) -> Obj:
        # Quirk: a given type leaves the partition unset; only a missing type adds rollingUpdate.
        if not value.get("type"):
            value = fill({**value, "type": "RollingUpdate"}, {"rollingUpdate": {}})
        return within(value, "rollingUpdate", lambda rolling: fill(rolling, {"partition": 0}))

    def template(claim: Obj) -> Obj:
        return fill_claim(fill_metadata({**claim, "apiVersion": "v1", "kind": "PersistentVolumeClaim"}))

    def spec(value: Obj) -> Obj:
        value = fill(
            value, {"replicas": 1, "revisionHistoryLimit": 10, "podManagementPolicy": "OrderedReady"}
        )
        value = within(fill(value, {"updateStrategy": {}}), "updateStrategy", strategy)
        value = all_of(present(value, {"serviceName": "", "template": {}}), "volumeClaimTemplates", template)
        return within(value, "template", fill_template)

    return fill_counters(within(present(obj, {"spec": {}}), "spec", spec), "replicas", "availableReplicas")


def _fill_gated(obj: Obj, gates: Collection[str]) -> Obj:
    """The object with the defaults of fields behind gates that are on."""
    spec = obj["spec"]
    if MAX_UNAVAILABLE in gates:
        spec = within(spec, "updateStrategy", _fill_unavailable)
    if CLAIM_RETENTION in gates:
        spec = fill(spec, {"persistentVolumeClaimRetentionPolicy": {}})
        spec = within(spec, "persistentVolumeClaimRetentionPolicy", lambda policy: fill(policy, _RETAIN))
    return obj if spec is obj["spec"] else {**obj, "spec": spec}


_RETAIN = {"whenDeleted": "Retain", "whenScaled": "Retain"}


def _fill_unavailable(strategy: Obj) -> Obj:
    if strategy.get("type") != "RollingUpdate":
        return strategy
    return within(strategy, "rollingUpdate", lambda rolling: fill(rolling, {"maxUnavailable": 1}))


# --- validation -----------------------------------------------------------------------------------

_FORBIDDEN = (
    "updates to statefulset spec for fields other than 'replicas', 'template', 'updateStrategy',"
    " 'persistentVolumeClaimRetentionPolicy' and 'minReadySeconds' are forbidden"
)

_FREE = (
    "replicas",
    "template",
    "updateStrategy",
    "persistentVolumeClaimRetentionPolicy",
    "minReadySeconds",
)

_RETENTIONS = ("Retain", "Delete")


def _spec_errors(spec: Obj) -> Errors:
    errors = _management_errors(spec.get("podManagementPolicy", ""))
    errors += _strategy_errors(spec.get("updateStrategy") or {})
    errors += _retention_errors(spec.get("persistentVolumeClaimRetentionPolicy"))
    errors += at_least_zero("spec.replicas", spec.get("replicas"))
    errors += at_least_zero("spec.minReadySeconds", spec.get("minReadySeconds"))
    errors += selector_errors(spec, "statefulset")
    if not is_sound(spec.get("selector")):
        errors.append(invalid("spec.selector", GoValue(LABEL_SELECTOR, spec["selector"]), ""))
    else:
        errors += mismatch_errors(spec)
        # Quirk: only the metadata of the template is checked.
        metadata = (spec.get("template") or {}).get("metadata") or {}
        errors += labels(metadata.get("labels"), "spec.template.labels")
        errors += annotation_map(metadata.get("annotations"), "spec.template.annotations")
    return errors + always_running_errors(spec, "StatefulSet")


def _management_errors(policy: str) -> Errors:
    if not policy:
        return [required("spec.podManagementPolicy")]
    if policy in ("OrderedReady", "Parallel"):
        return []
    return [invalid("spec.podManagementPolicy", policy, "must be 'OrderedReady' or 'Parallel'")]


def _strategy_errors(strategy: Obj) -> Errors:
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
                GoValue("*apps.RollingUpdateStatefulSetStrategy", rolling),
                "only allowed for updateStrategy 'RollingUpdate'",
            )
        ]
    if kind != "RollingUpdate":
        return [
            invalid(
                field,
                GoValue("apps.StatefulSetUpdateStrategy", strategy),
                "must be 'RollingUpdate' or 'OnDelete'",
            )
        ]
    return _rolling_errors(rolling or {}, f"{field}.rollingUpdate")


def _rolling_errors(rolling: Obj, field: str) -> Errors:
    errors = at_least_zero(f"{field}.partition", rolling.get("partition"))
    unavailable, at = rolling.get("maxUnavailable"), f"{field}.maxUnavailable"
    if unavailable is None:
        return errors
    errors += int_or_percent(unavailable, at)
    if is_zero(unavailable):
        errors.append(invalid(at, GoValue(INT_OR_STRING, unavailable), "cannot be 0"))
    return errors + not_above_all(unavailable, at)


def _retention_errors(policy: Obj | None) -> Errors:
    """Errors of the policy for claims when their set is deleted or scaled down."""
    if policy is None:
        return []
    return [
        unsupported(f"spec.persistentVolumeClaimRetentionPolicy.{when}", policy.get(when, ""), _RETENTIONS)
        for when in ("whenDeleted", "whenScaled")
        if policy.get(when, "") not in _RETENTIONS
    ]


def _validate_create(obj: Obj) -> Errors:
    return object_meta(obj["metadata"], True, text.subdomain) + _spec_errors(spec_of(obj))


def _validate_update(new: Obj, old: Obj) -> Errors:
    if new["metadata"] is old["metadata"] and spec_of(new) is spec_of(old):
        return []
    errors = _validate_create(new)
    errors += object_meta_update(new["metadata"], old["metadata"])
    spec, before = spec_of(new), spec_of(old)
    if {k: v for k, v in spec.items() if k not in _FREE} != {
        k: v for k, v in before.items() if k not in _FREE
    }:
        errors.append(forbidden("spec", _FORBIDDEN))
    return errors


_COUNTERS = (
    "replicas",
    "readyReplicas",
    "currentReplicas",
    "updatedReplicas",
    "availableReplicas",
    "observedGeneration",
    "collisionCount",
)


def _validate_status(new: Obj, old: Obj) -> Errors:
    status = new.get("status") or {}
    errors = counter_errors(status, _COUNTERS)
    detail = "cannot be greater than status.replicas"
    keys = ("readyReplicas", "currentReplicas", "updatedReplicas", "availableReplicas")
    errors += bound_errors(status, keys, "replicas", detail)
    detail = "cannot be greater than status.readyReplicas"
    errors += bound_errors(status, ("availableReplicas",), "readyReplicas", detail)
    errors += object_meta_update(new["metadata"], old["metadata"])
    return errors + collision_errors(status, old.get("status") or {})


# --- table ----------------------------------------------------------------------------------------


def _cells(obj: Obj, now_us: int, _: Names) -> Cells:
    ready = f"{count(obj, 'status', 'readyReplicas')}/{count(obj, 'spec', 'replicas')}"
    return [name_of(obj), ready, age(obj, now_us), *container_cells(obj)]


KIND = Kind(
    rows=(
        Row(
            "apps",
            "v1",
            "statefulsets",
            "StatefulSet",
            short=("sts",),
            categories=("all",),
            subs=(SCALE, STATUS),
        ),
    ),
    scaling=Scaling(hides_scale=True),
    strategy=Strategy(status=True, zero_status={"replicas": 0, "availableReplicas": 0}, generation="spec"),
    defaults=_fill_defaults,
    gated_defaults=_fill_gated,
    validate_create=_validate_create,
    validate_update={"": _validate_update, "status": _validate_status},
    pod_spec=("spec", "template", "spec"),
    gated_fields=(
        GatedField(CLAIM_RETENTION, ("spec", "persistentVolumeClaimRetentionPolicy")),
        GatedField(MAX_UNAVAILABLE, ("spec", "updateStrategy", "rollingUpdate", "maxUnavailable")),
    ),
    columns=(NAME, "Ready", AGE, *WIDE),
    cells=_cells,
    client_warnings=partial(template_warnings, path=("spec", "template")),
)
