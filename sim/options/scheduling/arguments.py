"""The arguments of plugins of the scheduler, with defaults and checks.

Turns the `pluginConfig` of a profile into the fields of a `ProfileSpec`.

Mirrors  kubernetes v1.25 pkg/scheduler/apis/config/validation/validation_pluginargs.go;
         pkg/scheduler/apis/config/v1/defaults.go; component-helpers
         scheduling/corev1/nodeaffinity (terms and operators).
Quirk    a `shape` of VolumeBinding is taken only with its feature gate.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from sim.options.scheduling import fields
from sim.options.scheduling.fields import Reading
from sim.options.scheduling.profiles import CPU_AND_MEMORY, LEAST, MOST, RATIO, DefaultSpread, Fit
from sim.patterns import pattern

SYSTEM, LIST = "System", "List"
ACTIONS = ("DoNotSchedule", "ScheduleAnyway")
OPERATORS = ("In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt")
BIND_TIMEOUT_S = 600
_LABEL = pattern(r"([a-z0-9]([-a-z0-9.]*[a-z0-9])?/)?[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?")
_HEAD = {"apiVersion": fields.text, "kind": fields.text}
_RESOURCE = {"name": fields.text, "weight": fields.whole}
_POINT = {"utilization": fields.whole, "score": fields.whole}
_EXPRESSION = {"key": fields.text, "operator": fields.text, "values": fields.texts}
_TERM = {"matchExpressions": fields.array, "matchFields": fields.array}
_PREFERENCE = {"weight": fields.whole, "preference": fields.mapping}
_AFFINITY = {
    "requiredDuringSchedulingIgnoredDuringExecution": fields.mapping,
    "preferredDuringSchedulingIgnoredDuringExecution": fields.array,
}
_CONSTRAINT = {
    "maxSkew": fields.whole,
    "topologyKey": fields.text,
    "whenUnsatisfiable": fields.text,
    "labelSelector": fields.mapping,
    "minDomains": fields.whole,
}
Values = dict[str, Any]


def _node_affinity(given: Values, reading: Reading, path: str) -> Values:
    place = f"{path}.addedAffinity"
    added = reading.fields(given.get("addedAffinity"), place, _AFFINITY)
    required, preferred = _AFFINITY
    terms = reading.fields(added.get(required), f"{place}.{required}", {"nodeSelectorTerms": fields.array})
    listed = f"{place}.{required}.nodeSelectorTerms"
    if required in added and not terms.get("nodeSelectorTerms"):
        reading.wrong(listed, f"{listed}: Required value: must have at least one node selector term")
    for here, term in reading.entries(terms.get("nodeSelectorTerms"), listed, _TERM):
        _check_term(term, reading, here)
    for here, one in reading.entries(added.get(preferred), f"{place}.{preferred}", _PREFERENCE):
        if not 1 <= one.get("weight", 0) <= 100:
            reading.invalid(f"{here}.weight", one.get("weight", 0), "must be in the range 1-100")
        term = reading.fields(one.get("preference"), f"{here}.preference", _TERM)
        _check_term(term, reading, f"{here}.preference")
    return {"affinity": added}


def _check_term(term: Mapping[str, Any], reading: Reading, path: str) -> None:
    for field in _TERM:
        for here, one in reading.entries(term.get(field), f"{path}.{field}", _EXPRESSION):
            operator, values = one.get("operator", ""), one.get("values", [])
            if operator not in OPERATORS:
                reading.invalid(f"{here}.operator", operator, "not a valid selector operator")
            elif operator in ("In", "NotIn") and not values:
                reading.wrong(here, f"{here}.values: Required value: must be specified for {operator}")
            elif operator in ("Exists", "DoesNotExist") and values:
                reading.wrong(here, f"{here}.values: Forbidden: may not be specified for {operator}")
            elif operator in ("Gt", "Lt") and len(values) != 1:
                reading.wrong(here, f"{here}.values: Required value: must be one value for {operator}")


def _spread(given: Values, reading: Reading, path: str) -> Values:
    kind, constraints = given.get("defaultingType", SYSTEM), given.get("defaultConstraints", [])
    if kind not in (SYSTEM, LIST):
        place = f"{path}.defaultingType"
        reading.wrong(place, f'{place}: Unsupported value: "{kind}": supported values: "{SYSTEM}", "{LIST}"')
    elif kind == SYSTEM and constraints:
        reading.invalid(f"{path}.defaultingType", kind, "when .defaultConstraints are not empty")
    result: list[DefaultSpread] = []
    for here, one in reading.entries(constraints, f"{path}.defaultConstraints", _CONSTRAINT):
        skew, key, action = (one.get(name) for name in ("maxSkew", "topologyKey", "whenUnsatisfiable"))
        if not isinstance(skew, int) or skew <= 0:
            reading.invalid(f"{here}.maxSkew", skew or 0, "not in valid range (0, inf)")
        for name in ("topologyKey", "whenUnsatisfiable"):
            if not one.get(name):
                reading.wrong(here, f"{here}.{name}: Required value: can not be empty")
        if key and not _LABEL.fullmatch(key):
            reading.invalid(f"{here}.topologyKey", key, "name part must be a qualified name")
        if action and action not in ACTIONS:
            supported = ", ".join(f'"{each}"' for each in ACTIONS)
            place = f"{here}.whenUnsatisfiable"
            reading.wrong(place, f'{place}: Unsupported value: "{action}": supported values: {supported}')
        if "labelSelector" in one:
            why = "constraint must not define a selector, as they deduced for each pod"
            reading.wrong(here, f"{here}.labelSelector: Forbidden: {why}")
        constraint = DefaultSpread(str(key), skew or 0, action == ACTIONS[0])
        if any(
            (one.topology_key, one.is_hard) == (constraint.topology_key, constraint.is_hard) for one in result
        ):
            reading.wrong(here, f'{here}: Duplicate value: "{{{key}, {action}}}"')
        result.append(constraint)
    return {"spread": tuple(result) if kind == LIST else None}


def _pod_affinity(given: Values, reading: Reading, path: str) -> Values:
    weight = given.get("hardPodAffinityWeight", 1)
    if not 0 <= weight <= 100:
        reading.invalid(f"{path}.hardPodAffinityWeight", weight, "not in valid range [0, 100]")
    return {"required_weight": weight}


def _fit(given: Values, reading: Reading, path: str) -> Values:
    ignored, groups = given.get("ignoredResources", []), given.get("ignoredResourceGroups", [])
    for index, name in enumerate(ignored):
        if not _LABEL.fullmatch(name):
            reading.invalid(f"{path}.ignoredResources[{index}]", name, "name part must be a qualified name")
    for index, group in enumerate(groups):
        if "/" in group:
            reading.invalid(
                f"{path}.ignoredResourceGroups[{index}]", group, "resource group name can't contain '/'"
            )
    place = f"{path}.scoringStrategy"
    types = {"type": fields.text, "resources": fields.array, "requestedToCapacityRatio": fields.mapping}
    strategy = reading.fields(given.get("scoringStrategy"), place, types)
    kind, ratio = strategy.get("type", LEAST), f"{place}.requestedToCapacityRatio"
    if kind not in (LEAST, MOST, RATIO):
        supported = ", ".join(f'"{each}"' for each in (LEAST, MOST, RATIO))
        reading.wrong(
            f"{place}.type", f'{place}.type: Unsupported value: "{kind}": supported values: {supported}'
        )
    resources = _resources(strategy.get("resources"), reading, f"{place}.resources")
    for index, (name, weight) in enumerate(resources):
        if not 0 < weight <= 100:
            why = f"resource weight of {name} not in valid range (0, 100]"
            reading.invalid(f"{place}.resources[{index}].weight", weight, why)
    shape: tuple[tuple[int, int], ...] = ()
    if kind == RATIO and "requestedToCapacityRatio" not in strategy:
        reading.wrong(ratio, f"{ratio}: Required value: must be specified when type is {RATIO}")
    elif kind == RATIO:
        inner = reading.fields(strategy["requestedToCapacityRatio"], ratio, {"shape": fields.array})
        shape = _shape(inner.get("shape"), reading, f"{ratio}.shape")
    elif "requestedToCapacityRatio" in strategy:
        reading.wrong(ratio, f"{ratio}: Forbidden: must be nil when type is not {RATIO}")
    return {"fit": Fit(frozenset(ignored), frozenset(groups), kind, resources or CPU_AND_MEMORY, shape)}


def _resources(value: object, reading: Reading, path: str) -> tuple[tuple[str, int], ...]:
    result = [one for _, one in reading.entries(value, path, _RESOURCE)]
    return tuple((one.get("name", ""), one.get("weight", 0) or 1) for one in result)


def _shape(value: object, reading: Reading, path: str) -> tuple[tuple[int, int], ...]:
    points = [
        (one.get("utilization", 0), one.get("score", 0)) for _, one in reading.entries(value, path, _POINT)
    ]
    if not points:
        reading.wrong(path, f"{path}: Required value: at least one point must be specified")
    for index in range(1, len(points)):
        if points[index - 1][0] >= points[index][0]:
            place, why = f"{path}[{index}].utilization", "values must be sorted in increasing order"
            reading.invalid(place, points[index][0], why)
            break
    for index, point in enumerate(points):
        for name, number, most in (("utilization", point[0], 100), ("score", point[1], 10)):
            if not 0 <= number <= most:
                reading.invalid(f"{path}[{index}].{name}", number, f"not in valid range [0, {most}]")
    return tuple(points)


def _balanced(given: Values, reading: Reading, path: str) -> Values:
    resources = _resources(given.get("resources"), reading, f"{path}.resources")
    names = [name for name, _ in resources]
    for index, (name, weight) in enumerate(resources):
        if name in names[:index]:
            place = f"{path}.resources[{index}].name"
            reading.wrong(place, f'{place}: Duplicate value: "{name}"')
        if weight != 1:
            reading.invalid(f"{path}.resources[{index}].weight", weight, "must be 1")
    return {"balanced": tuple(names) or ("cpu", "memory")}


def _volumes(given: Values, reading: Reading, path: str) -> Values:
    timeout_s = given.get("bindTimeoutSeconds", BIND_TIMEOUT_S)
    if timeout_s < 0:
        why = "invalid BindTimeoutSeconds, should not be a negative value"
        reading.invalid(f"{path}.bindTimeoutSeconds", timeout_s, why)
    if "shape" in given:
        why = "unexpected field `shape`, remove it or turn on the feature gate VolumeCapacityPriority"
        reading.invalid(f"{path}.shape", given["shape"], why)
    return {"bind_timeout_s": timeout_s}


def _preemption(given: Values, reading: Reading, path: str) -> Values:
    names = ("minCandidateNodesPercentage", "minCandidateNodesAbsolute")
    percentage, absolute = given.get(names[0], 10), given.get(names[1], 100)
    if not 0 <= percentage <= 100:
        reading.invalid(f"{path}.{names[0]}", percentage, "not in valid range [0, 100]")
    if absolute < 0:
        reading.invalid(f"{path}.{names[1]}", absolute, "not in valid range [0, inf)")
    if percentage == absolute == 0:
        for name, other in (names, names[::-1]):
            reading.invalid(f"{path}.{name}", 0, f"cannot be zero at the same time as {other}")
    return {"candidates": (percentage, absolute)}


Read = Callable[[Values, Reading, str], Values]
ARGUMENTS: Mapping[str, tuple[Mapping[str, fields.Type], Read]] = {
    "NodeAffinity": ({"addedAffinity": fields.mapping}, _node_affinity),
    "PodTopologySpread": (
        {"defaultConstraints": fields.array, "defaultingType": fields.text},
        _spread,
    ),
    "InterPodAffinity": ({"hardPodAffinityWeight": fields.whole}, _pod_affinity),
    "NodeResourcesFit": (
        {
            "ignoredResources": fields.texts,
            "ignoredResourceGroups": fields.texts,
            "scoringStrategy": fields.mapping,
        },
        _fit,
    ),
    "NodeResourcesBalancedAllocation": ({"resources": fields.array}, _balanced),
    "VolumeBinding": ({"bindTimeoutSeconds": fields.whole, "shape": fields.array}, _volumes),
    "DefaultPreemption": (
        {"minCandidateNodesPercentage": fields.whole, "minCandidateNodesAbsolute": fields.whole},
        _preemption,
    ),
}


def arguments_of(given: Sequence[object] | None, reading: Reading, path: str) -> Values:
    """The fields of a profile that the arguments of its plugins give."""
    result: Values = {}
    seen: set[str] = set()
    types = {"name": fields.text, "args": fields.mapping}
    for here, one in reading.entries(given, path, types):
        name = one.get("name", "")
        if name in seen:
            reading.wrong(here, f'{here}: Duplicate value: "{name}"')
        seen.add(name)
        entry = ARGUMENTS.get(name)
        if entry is None:
            if one.get("args"):
                reading.wrong(here, f"{here}: {name or 'a plugin without a name'} takes no arguments")
            continue
        args = reading.fields(one.get("args"), f"{here}.args", {**_HEAD, **entry[0]})
        if args.get("kind", f"{name}Args") != f"{name}Args":
            reading.wrong(
                f"{here}.args", f"{here}.args: Invalid value: {args['kind']}: has to match plugin args"
            )
        result |= entry[1](args, reading, f"{here}.args")
    return result
