"""The plan of a cluster that is described by a few parameters, and the checks of these parameters.

Turns the parameters of `Cluster(nodes=..., boot=...)` into a `ClusterPlan` of equal nodes.
"""

from __future__ import annotations

from collections.abc import Container, Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from itertools import count as numbers
from itertools import islice
from operator import index as whole
from typing import Any, SupportsIndex

from actors.node.runtime.missing_images import MISSING_IMAGES
from actors.node.runtime.profile import ContainerBehaviour, Rule, RuntimeProfile
from sim.app.profiles import settings_of
from sim.errors import InputError
from sim.ident import NAMES
from sim.scenario.compile import NODES_MAX, plan_of_settings
from sim.scenario.plan.plan import ClusterPlan, NodePlan
from sim.scenario.plan.storage import storage_of
from sim.scenario.schema.sections import Runtime
from sim.units import JSON_WHOLE_MAX, parse_duration_us

# The nodes of `plain_nodes` as a setting of a scenario.
PLAIN_CAPACITY = {"cpu": "8", "memory": "32Gi"}
PLAIN_GROUP = "cluster.nodes=[{{count: {}, capacity: {{cpu: 8, memory: 32Gi}}}}]"


def plain_plan(
    nodes: int,
    naming: str,
    boot: str | int,
    established: Sequence[Mapping[str, Any]],
    storage: Sequence[Mapping[str, Any]] = (),
    profile: str = "",
) -> ClusterPlan:
    """The plan of a cluster of equal nodes.  Raises InputError.

    profile: of its control plane (`sim.app.profiles`); its naming comes before the default one
    """
    given = plan_of_settings(profile, settings_of(profile)).cluster if profile else ClusterPlan()
    if profile and naming == ClusterPlan().naming:
        naming = given.naming
    if not isinstance(nodes, int) or not 0 <= nodes <= NODES_MAX:
        raise InputError(f"{nodes!r} is no number of nodes from 0 to {NODES_MAX}")
    if naming not in NAMES:
        raise InputError(f"there is no naming {naming!r}", "", f"one of: {', '.join(NAMES)}")
    return replace(
        given,
        naming=naming,
        nodes=plain_nodes(nodes),
        boot_us=checked_us(boot),
        established=tuple(established),
        storage=storage_of(storage, NAMES[naming]),
    )


def plain_nodes(count: int, taken: Container[str] = ()) -> tuple[NodePlan, ...]:
    """Equal nodes named node-0, node-1 and so on, without the names that are taken."""
    names = (name for n in numbers() if (name := f"node-{n}") not in taken)
    flags: dict[str, Any] = {}
    return tuple(
        NodePlan(name, "", "", PLAIN_CAPACITY, {}, (), Runtime(), flags) for name in islice(names, count)
    )


def profile_of(runtime: Runtime) -> RuntimeProfile:
    """The profile of a scenario's runtime settings; equal settings share one profile."""
    missing = MISSING_IMAGES if runtime.missing_images is None else tuple(runtime.missing_images)
    app_armor, seccomp = (
        None if names is None else tuple(names)
        for names in (runtime.app_armor_profiles, runtime.seccomp_profiles)
    )
    times = runtime.image_pull, runtime.start, runtime.exit_after
    private = tuple(runtime.private_images)
    return _profile(*times, runtime.exit_code, missing, app_armor, seccomp, private)


@lru_cache(maxsize=64)
def _profile(
    image_pull: str, start: str, exit_after: str | None, exit_code: int, missing: tuple[str, ...],
    app_armor: tuple[str, ...] | None, seccomp: tuple[str, ...] | None, private: tuple[str, ...],
) -> RuntimeProfile:  # fmt: skip
    pull_us, start_us = parse_duration_us(image_pull), parse_duration_us(start)
    rules: tuple[Rule, ...] = ()
    if exit_after is not None:
        rules = (Rule(ContainerBehaviour(exit_after_us=parse_duration_us(exit_after), exit_code=exit_code)),)
    return RuntimeProfile(
        start_us=start_us,
        warm=not pull_us,
        pull_us=pull_us,
        rules=rules,
        missing_images=missing,
        private_images=private,
        app_armor_profiles=app_armor,
        seccomp_profiles=seccomp,
    )


def checked_seed(seed: SupportsIndex) -> int:
    """A seed, of any type of whole number.  Raises InputError."""
    if isinstance(seed, SupportsIndex) and not isinstance(seed, bool) and 0 <= whole(seed) <= JSON_WHOLE_MAX:
        return whole(seed)
    raise InputError(f"{seed!r} is no seed", "", "a whole number from 0 to 2^53 - 1")


def checked_us(duration: str | int) -> int:
    """Microseconds of a duration such as "10m", or of a number.  Raises InputError."""
    try:
        found = duration if isinstance(duration, int) else parse_duration_us(duration)
    except (TypeError, ValueError):
        found = -1
    if found < 0:
        raise InputError(
            f"{duration!r} is no duration", "", "write it as 90s, 5m or 1h30m, or as microseconds"
        )
    return found
