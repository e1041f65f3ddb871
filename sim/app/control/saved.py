"""What was done by hand, as a scenario file that gives the same run.

Turns the plan of a served cluster, and what its users did, into the text of a scenario: the steps
at their instants, the expectations with the starts of their windows, the cluster as served, from
the same time of the wall clock.

Holds: the run of the file has the trace of the session, if no other client has changed anything; of
such clients the file says how many requests it lacks (a journal repeats them). The file needs no
other file: its objects are written out.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from copy import deepcopy
from typing import Any

import yaml

from sim.app.control.session import Done, Judged
from sim.scenario.plan.plan import Plan
from sim.units import Virtual, Wall, format_duration, format_micro_time

Obj = dict[str, Any]


def scenario_of(
    document: Mapping[str, Any],
    plan: Plan,
    epoch_us: Wall,
    end_us: Virtual,
    done: Sequence[Done],
    judged: Sequence[Judged],
) -> Obj:
    """The document of the scenario.

    document: that of what was served, with its settings
    end_us: virtual time at which the run ends
    """
    new = deepcopy(dict(document))
    spec: Obj = new.setdefault("spec", {})
    cluster: Obj = spec.setdefault("cluster", {})
    cluster |= {"naming": plan.cluster.naming, "boot": format_duration(plan.cluster.boot_us)}
    cluster |= {"served": plan.cluster.served, "epoch": format_micro_time(epoch_us)}
    objects = plan.cluster.established or plan.objects
    if objects:
        spec["objects"] = [dict(obj) for obj in objects]
    spec["seed"] = plan.seed
    spec["duration"] = format_duration(max(end_us, plan.duration_us, 1))
    steps = [*spec.get("timeline", ()), *(_step(one) for one in done)]
    if steps:
        spec["timeline"] = steps
    expectations = [*spec.get("expect", ()), *(one.entry for one in judged)]
    if expectations:
        spec["expect"] = expectations
    return new


def _step(done: Done) -> Obj:
    named = {"name": done.name, "at": format_duration(done.at_us)}
    return {**named, **{key: value for key, value in done.step.items() if key != "name"}, "by": done.user}


def scenario_text(document: Mapping[str, Any], title: str, lacking: int) -> str:
    """The scenario as the text of a file.

    title: the first line, a comment
    lacking: requests of other clients that changed something, which it does not repeat
    """
    lines = [f"# {title}"]
    if lacking:
        lines.append(f"# {lacking} requests of other clients that may have changed something are not in it:")
        lines.append("# orrery replay JOURNAL repeats them (orrery serve --journal JOURNAL).")
    return "\n".join([*lines, yaml.safe_dump(dict(document), sort_keys=False, allow_unicode=True, width=100)])
