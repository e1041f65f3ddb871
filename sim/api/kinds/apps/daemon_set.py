"""DaemonSets.

Mirrors  kubernetes v1.25 pkg/registry/apps/daemonset/strategy.go,
         pkg/apis/apps/validation/validation.go: ValidateDaemonSet and its updates (an update checks
         the spec twice: its causes appear twice); pkg/apis/apps/v1/{defaults,conversion}.go.
"""

from __future__ import annotations

from functools import partial

from sim.api.go.printing import INT_OR_STRING, LABEL_SELECTOR, GoValue
from sim.api.kinds.common.cells import AGE, NAME, SELECTOR, WIDE, age, container_cells, count
from sim.api.kinds.common.counts import int_or_percent, is_zero, not_above_all
from sim.api.kinds.common.fill import fill, present, within
from sim.api.kinds.common.pods.defaults import fill_template
from sim.api.kinds.common.pods.spec import template
from sim.api.kinds.common.pods.warnings import template_warnings
from sim.api.kinds.common.status import fill_counters
from sim.api.kinds.common.workloads import (
    always_running_errors,
    collision_errors,
    counter_errors,
    fill_rolling_update,
    is_empty,
    mismatch_errors,
    read_only_disk_errors,
    spec_of,
)
from sim.api.objects import get_in, name_of, with_metadata
from sim.api.schema.json_text import go_quote
from sim.api.schema.kind import NOTHING, STATUS, Cells, Kind, Row, Strategy
from sim.api.selectors import format_labels, format_selector
from sim.api.types import Obj
from sim.api.validation import text
from sim.api.validation.errors import Errors, at_least_zero, invalid, required, unsupported
from sim.api.validation.metadata import (
    immutable_selector,
    is_sound,
    label_selector,
    object_meta,
    object_meta_update,
)
from sim.ident import NAMES, Names
from sim.patterns import pattern


def _fill_defaults(obj: Obj) -> Obj:
    def spec(value: Obj) -> Obj:
        value = present(fill(value, {"revisionHistoryLimit": 10}), {"template": {}})
        value = fill_rolling_update(value, "updateStrategy", {"maxUnavailable": 1, "maxSurge": 0})
        value = within(
            value,
            "updateStrategy",
            lambda s: within(s, "rollingUpdate", lambda r: present(r, {"maxSurge": 0})),
        )
        return within(value, "template", fill_template)

    obj = within(present(obj, {"spec": {}}), "spec", spec)
    return fill_counters(
        obj, "currentNumberScheduled", "desiredNumberScheduled", "numberMisscheduled", "numberReady"
    )


# --- strategy -------------------------------------------------------------------------------------


def fill_template_generation(obj: Obj, names: Names, old: Obj | None = None) -> Obj:
    """The DaemonSet with the annotation that counts the versions of its template."""
    name = names.annotation_template_generation
    annotations = obj["metadata"].get("annotations") or NOTHING
    if old is None:
        count = annotations.get(name) or "0"  # conversion.go: the number of the internal type
    else:
        count = (old["metadata"].get("annotations") or NOTHING).get(name, "1")
        template, before = (((o.get("spec") or NOTHING).get("template")) for o in (obj, old))
        if template is not before and template != before:
            count = str(int(count) + 1)
    return (
        obj
        if annotations.get(name) == count
        else with_metadata(obj, annotations={**annotations, name: count})
    )


GENERATION = NAMES["orch"].annotation_template_generation  # the same in every naming set
_COUNT = pattern(r"[+-]?[0-9]+")
_COUNT_MAX = 2**63


def _misread(obj: Obj) -> str:
    """The error of an annotation that is no number (conversion.go)."""
    annotations = (obj.get("metadata") or NOTHING).get("annotations") or NOTHING
    text = annotations.get(GENERATION)
    if text is None:
        return ""
    if not _COUNT.fullmatch(text):
        return f"strconv.ParseInt: parsing {go_quote(text)}: invalid syntax"
    if not -_COUNT_MAX <= int(text) < _COUNT_MAX:
        return f"strconv.ParseInt: parsing {go_quote(text)}: value out of range"
    return ""


def _prepare_create(obj: Obj, names: Names) -> Obj:
    """A new DaemonSet begins with the first version (strategy.go: PrepareForCreate)."""
    name = names.annotation_template_generation
    annotations = obj["metadata"].get("annotations") or NOTHING
    if int(annotations.get(name) or 0) >= 1:
        return obj
    return with_metadata(obj, annotations={**annotations, name: "1"})


def _prepare_update(new: Obj, old: Obj, names: Names) -> Obj:
    return fill_template_generation(new, names, old)


# --- validation -----------------------------------------------------------------------------------


def _spec_errors(spec: Obj) -> Errors:
    selector = spec.get("selector")
    errors = label_selector(selector, "spec.selector")
    if is_sound(selector):
        errors += mismatch_errors(spec)
    if selector is not None and is_empty(selector):
        errors.append(
            invalid(
                "spec.selector", GoValue(LABEL_SELECTOR, selector), "empty selector is invalid for daemonset"
            )
        )
    errors += template(spec.get("template") or {}, "spec.template")
    errors += read_only_disk_errors(spec, 2)  # on every node
    errors += always_running_errors(spec, "DaemonSet")
    errors += at_least_zero("spec.minReadySeconds", spec.get("minReadySeconds"))
    errors += _strategy_errors(spec.get("updateStrategy") or {})
    return errors + at_least_zero("spec.revisionHistoryLimit", spec.get("revisionHistoryLimit"))


def _strategy_errors(strategy: Obj) -> Errors:
    kind, rolling, field = strategy.get("type", ""), strategy.get("rollingUpdate"), "spec.updateStrategy"
    if kind == "OnDelete":
        return []
    if kind != "RollingUpdate":
        shown = GoValue("apps.DaemonSetUpdateStrategy", strategy)
        return [unsupported(field, shown, ("RollingUpdate", "OnDelete"))]
    if rolling is None:
        return [required(f"{field}.rollingUpdate")]
    at = f"{field}.rollingUpdate"
    unavailable, surge = rolling.get("maxUnavailable", 0), rolling.get("maxSurge", 0)
    errors = int_or_percent(unavailable, f"{at}.maxUnavailable")
    errors += int_or_percent(surge, f"{at}.maxSurge")
    errors += not_above_all(unavailable, f"{at}.maxUnavailable") + not_above_all(surge, f"{at}.maxSurge")
    if not is_zero(unavailable) and not is_zero(surge):
        errors.append(
            invalid(
                f"{at}.maxSurge",
                GoValue(INT_OR_STRING, surge),
                "may not be set when maxUnavailable is non-zero",
            )
        )
    if is_zero(unavailable) and is_zero(surge):
        errors.append(required(f"{at}.maxUnavailable", "cannot be 0 when maxSurge is 0"))
    return errors


def _validate_create(obj: Obj) -> Errors:
    return object_meta(obj["metadata"], True, text.subdomain) + _spec_errors(spec_of(obj))


def _validate_update(new: Obj, old: Obj) -> Errors:
    if new["metadata"] is old["metadata"] and spec_of(new) is spec_of(old):
        return []
    errors = _validate_create(new)
    errors += object_meta_update(new["metadata"], old["metadata"])
    errors += _spec_errors(spec_of(new))
    return errors + immutable_selector(spec_of(new).get("selector"), spec_of(old).get("selector"))


_COUNTERS = (
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


def _validate_status(new: Obj, old: Obj) -> Errors:
    status, was = new.get("status") or {}, old.get("status") or {}
    errors = object_meta_update(new["metadata"], old["metadata"])
    return errors + counter_errors(status, _COUNTERS) + collision_errors(status, was)


# --- table ----------------------------------------------------------------------------------------


def _cells(obj: Obj, now_us: int, _: Names) -> Cells:
    counters = ("desiredNumberScheduled", "currentNumberScheduled", "numberReady")
    rollout = ("updatedNumberScheduled", "numberAvailable")
    numbers = [count(obj, "status", counter) for counter in (*counters, *rollout)]
    selector = format_labels(get_in(obj, ("spec", "template", "spec", "nodeSelector")))
    shown = format_selector(get_in(obj, ("spec", "selector")))
    return [name_of(obj), *numbers, selector, age(obj, now_us), *container_cells(obj), shown]


KIND = Kind(
    rows=(Row("apps", "v1", "daemonsets", "DaemonSet", short=("ds",), categories=("all",), subs=(STATUS,)),),
    strategy=Strategy(
        status=True,
        zero_status={
            "currentNumberScheduled": 0,
            "desiredNumberScheduled": 0,
            "numberMisscheduled": 0,
            "numberReady": 0,
        },
        generation="spec",
        fill_named=fill_template_generation,
        prepare_create=_prepare_create,
        prepare_update=_prepare_update,
        prepare_status=_prepare_update,
    ),
    converted_annotations=(GENERATION,),
    defaults=_fill_defaults,
    misread=_misread,
    validate_create=_validate_create,
    validate_update={"": _validate_update, "status": _validate_status},
    pod_spec=("spec", "template", "spec"),
    columns=(
        NAME,
        "Desired:integer=status.desiredNumberScheduled",
        "Current:integer=status.currentNumberScheduled",
        "Ready:integer=status.numberReady",
        "Up-to-date:integer=status.updatedNumberScheduled",
        "Available:integer=status.numberAvailable",
        "Node Selector=spec.template",
        AGE,
        *WIDE,
        SELECTOR,
    ),
    cells=_cells,
    client_warnings=partial(template_warnings, path=("spec", "template")),
)
