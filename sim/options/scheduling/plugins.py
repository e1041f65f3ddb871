"""Which plugins the scheduler has, what each extends, and how sets of them are merged.

Turns the plugins of a profile, by extension point, into those that are enabled at each.

Mirrors  kubernetes v1.25 pkg/scheduler/apis/config/v1/default_plugins.go: getDefaultPlugins,
         mergePlugins; pkg/scheduler/framework/runtime/framework.go: NewFramework,
         expandMultiPointPlugins, getScoreWeights.
Differs  the filters run in the order of the default profile, not in that of the file; a
         plugin that does only a part of what its results need is refused.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from sim.options.scheduling import fields
from sim.options.scheduling.fields import Reading

FILTER, SCORE, POST_FILTER = "filter", "score", "postFilter"
MULTI_POINT, EVERY = "multiPoint", "*"
POINTS = (
    "queueSort", "preFilter", FILTER, POST_FILTER, "preScore", SCORE, "reserve", "permit", "preBind", "bind",
    "postBind",
)  # fmt: skip
_SPREADING = ("preFilter", FILTER, "preScore", SCORE)
# What each plugin of the default profile extends, in the order of the profile.
EXTENDED: Mapping[str, tuple[str, ...]] = {
    "PrioritySort": ("queueSort",),
    "NodeUnschedulable": (FILTER,),
    "NodeName": (FILTER,),
    "TaintToleration": (FILTER, "preScore", SCORE),
    "NodeAffinity": _SPREADING,
    "NodePorts": ("preFilter", FILTER),
    "NodeResourcesFit": ("preFilter", FILTER, SCORE),
    "VolumeRestrictions": ("preFilter", FILTER),
    "EBSLimits": (FILTER,),
    "GCEPDLimits": (FILTER,),
    "NodeVolumeLimits": (FILTER,),
    "AzureDiskLimits": (FILTER,),
    "VolumeBinding": ("preFilter", FILTER, SCORE, "reserve", "preBind"),
    "VolumeZone": (FILTER,),
    "PodTopologySpread": _SPREADING,
    "InterPodAffinity": _SPREADING,
    "DefaultPreemption": (POST_FILTER,),
    "NodeResourcesBalancedAllocation": (SCORE,),
    "ImageLocality": (SCORE,),
    "DefaultBinder": ("bind",),
}
WEIGHTS: Mapping[str, int] = {
    "TaintToleration": 3,
    "NodeAffinity": 2,
    "PodTopologySpread": 2,
    "InterPodAffinity": 2,
}
NOT_HERE = ("SelectorSpread", "CinderLimits")  # of upstream's registry, and of no default profile
_PLUGIN = {"name": fields.text, "weight": fields.whole}
_SET = {"enabled": fields.array, "disabled": fields.array}
_INTERFACES = {"queueSort": "QueueSortPlugin", MULTI_POINT: "PreFilterPlugin"}
Entry = tuple[str, int]


def enabled_plugins(
    given: Mapping[str, Any], reading: Reading, path: str
) -> tuple[Mapping[str, Sequence[str]], Mapping[str, int]]:
    """The plugins that are enabled at each point, and the weights of those that score.

    path: of the plugins in the file
    """
    sets = {point: _set_of(given.get(point), reading, f"{path}.{point}") for point in (*POINTS, MULTI_POINT)}
    custom, disabled = sets[MULTI_POINT]
    merged = _merged([(name, WEIGHTS.get(name, 0)) for name in EXTENDED], custom, disabled)
    _check_double([name for name, _ in merged], reading, f"{path}.{MULTI_POINT}")
    result: dict[str, Sequence[str]] = {}
    for point in POINTS:
        explicit, without = sets[point]
        names = [name for name, _ in explicit]
        for name in names:
            if point not in EXTENDED.get(name, (point,)):
                interface = f"{point[0].upper()}{point[1:]}"
                reading.wrong(f"{path}.{point}", f'plugin "{name}" does not extend {interface}Plugin plugin')
        _check_double(names, reading, f"{path}.{point}")
        if EVERY not in without:
            implied = [name for name, _ in merged if point in EXTENDED.get(name, ())]
            names += [name for name in implied if name not in without and name not in names]
        result[point] = names
    weights = {name: weight or 1 for name, weight in reversed([*sets[SCORE][0], *merged])}
    return result, {name: weights[name] for name in result[SCORE] if name in weights}


def _set_of(value: object, reading: Reading, path: str) -> tuple[list[Entry], set[str]]:
    """The plugins that a set enables, with their weights (0: none is given), and disables."""
    entry = reading.fields(value, path, _SET)
    entries = []
    for here, one in reading.entries(entry.get("enabled"), f"{path}.enabled", _PLUGIN):
        name, point = one.get("name", ""), path.rpartition(".")[2]
        interface = _INTERFACES.get(point, f"{point[0].upper()}{point[1:]}Plugin")
        if name in NOT_HERE:
            reading.wrong(here, f"{here}: {name} is not simulated")
        elif name not in EXTENDED:
            reading.wrong(here, f'{interface} "{name}" does not exist')
        entries.append((name, one.get("weight", 0)))
    listed = reading.entries(entry.get("disabled"), f"{path}.disabled", _PLUGIN)
    return entries, {one.get("name", "") for _, one in listed}


def _merged(default: Sequence[Entry], custom: Sequence[Entry], disabled: set[str]) -> list[Entry]:
    """mergePluginSet: a plugin that is given again keeps its place."""
    entry = dict(custom)
    stored = [] if EVERY in disabled else [(name, weight) for name, weight in default if name not in disabled]
    result = [(name, entry.get(name, weight)) for name, weight in stored]
    # Quirk: of a plugin that is given twice, the first is appended besides the default's place.
    names, last = {name for name, _ in stored}, {name: index for index, (name, _) in enumerate(custom)}
    return result + [one for index, one in enumerate(custom) if one[0] not in names or last[one[0]] != index]


def _check_double(names: Sequence[str], reading: Reading, path: str) -> None:
    for name in dict.fromkeys(name for name in names if names.count(name) > 1):
        reading.wrong(path, f'plugin "{name}" already registered as "{path.rpartition(".")[2]}"')


def check_plugins(found: Mapping[str, Sequence[str]], scheduler: str, reading: Reading, path: str) -> None:
    """Note what a scheduler cannot work with.  scheduler: the name of the profile"""
    for point, what in (("queueSort", "queue sort"), ("bind", "bind")):
        if not found[point]:
            text = f'at least one {what} plugin is needed for profile with scheduler name "{scheduler}"'
            reading.wrong(f"{path}.{point}", text)
    for name, points in EXTENDED.items():
        needs = [point for point in points if point in ("preFilter", FILTER, "reserve", "preBind")]
        current = [point for point in needs if name in found[point]]
        if current and current != needs:
            lacks = next(point for point in needs if point not in current)
            reading.wrong(
                f"{path}.{lacks}",
                f"{path}.{lacks}: {name} is enabled at {current[0]}, and needs this point too",
            )
        if (
            SCORE in points
            and "preScore" in points
            and name in found[SCORE]
            and name not in found["preScore"]
        ):
            reading.wrong(
                f"{path}.preScore", f"{path}.preScore: {name} is enabled at score, and needs this point too"
            )
