"""What a cluster is given: objects that are checked before the run, and machines of plans."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from actors.node.runtime.profile import NodeSpec
from sim.api.scheme.scheme import Scheme
from sim.app.options import machine_capacity
from sim.app.plain_plan import profile_of
from sim.errors import InputError
from sim.ident import Names
from sim.scenario.plan.own_kinds import kind_remedy
from sim.scenario.plan.plan import NodePlan

if TYPE_CHECKING:
    from actors.scheduler.plugins import SchedulerPlugin


def check_object(scheme: Scheme, obj: Mapping[str, Any]) -> None:
    """Check that a value is an object of a known kind, or of one that a definition may add."""
    if not isinstance(obj, Mapping):
        raise InputError(f"an object is a mapping, not {obj!r:.40}")
    for field in ("apiVersion", "kind"):
        if not isinstance(obj.get(field), str):
            raise InputError(f"the object has no {field}")
    metadata = obj.get("metadata")
    if not isinstance(metadata, Mapping) or not isinstance(metadata.get("name"), str):
        raise InputError(f"the {obj['kind']} has no metadata.name")
    version = obj["apiVersion"]
    group = version.rpartition("/")[0]
    if scheme.by_kind(version, obj["kind"]) is None and any(one.group == group for one in scheme.resources):
        remedy = kind_remedy(scheme, obj["kind"])
        raise InputError(f"there is no kind {obj['kind']} in {version}", "", remedy)


def node_spec(names: Names, plan: NodePlan, number: int) -> NodeSpec:
    """The machine that a plan describes, as the one of this number, which gives its addresses."""
    labels = dict(plan.labels)
    if plan.zone:
        labels[names.label_zone] = plan.zone
    if plan.region:
        labels[names.label_region] = plan.region
    return NodeSpec(
        plan.name,
        labels=labels,
        zone=plan.zone,
        region=plan.region,
        address=f"172.{16 + number // 62500}.{number // 250 % 250}.{number % 250 + 1}",
        pod_cidr=f"10.{128 + number // 256 % 128}.{number % 256}.0/24",
        capacity=machine_capacity(plan),
        allocatable=plan.allocatable,
        taints=plan.taints,
        static_pods=plan.static_pods,
        profile=profile_of(plan.runtime),
        lease_jitter=plan.lease_jitter,
        topology=plan.topology,
        devices=plan.devices,
        swap_bytes=plan.swap_bytes,
        sysctls=plan.sysctls,
    )


def checked_plugins(plugins: Sequence[SchedulerPlugin]) -> tuple[SchedulerPlugin, ...]:
    """Rules of a user's own.  Raises InputError."""
    if not plugins:
        return ()
    from actors.scheduler.plugins.registry import check_added

    return check_added(plugins)
