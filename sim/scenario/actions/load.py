"""load: programs send requests at a rate."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Annotated, Any, ClassVar

import msgspec
from msgspec import UNSET, Meta, UnsetType

from actors.users import LoadSpec
from sim.dataclass import dataclass
from sim.faults.shared.kinds import Action, Ends, Stage, StepKind, Undo
from sim.faults.shared.parameters import Count, Strict
from sim.scenario.actions.context import UserContext, check_object
from sim.units import SECOND

CLIENTS_MAX = 10_000
GAP_MIN_US = 100  # 10,000 requests a second are more than a control plane serves


class LoadScale(Strict):
    """The object that a load scales, and the bounds of the number of replicas."""

    resource: str
    name: str
    between: Annotated[list[Count], Meta(min_length=2, max_length=2)]
    namespace: str = "default"


class Load(Strict):
    """The parameters of `load`.  One of create, scale and list is given."""

    rate: Annotated[str, Meta(description="Requests in a time, on average: `5/s`, `6/h` or `3/10m`.")]
    create: Annotated[
        dict[str, Any] | UnsetType, Meta(description="A manifest; the name of each object gets a number.")
    ] = UNSET
    lifetime: Annotated[
        str | UnsetType, Meta(description="With `create`: each object is deleted after this time.")
    ] = UNSET
    scale: Annotated[
        LoadScale | UnsetType,
        Meta(description="An object by `resource`, `namespace` and `name`, to scale `between: [low, high]`."),
    ] = UNSET
    list_: Annotated[str | UnsetType, Meta(description="A resource, listed from the storage each time.")] = (
        msgspec.field(name="list", default=UNSET)
    )
    user: Annotated[
        str,
        Meta(
            description="The user that sends the requests; without it an administrator, exempt from fairness."
        ),
    ] = ""
    groups: Annotated[
        list[str], Meta(description="The user's groups; without them those that come with its name.")
    ] = []
    clients: Annotated[
        Annotated[int, Meta(ge=1, le=CLIENTS_MAX)] | UnsetType,
        Meta(description="The number of programs that send in turn, spread over the API servers; default 1."),
    ] = UNSET


@dataclass(frozen=True, slots=True)
class Generate(Action):
    """A load at random instants.  One of create, scale and list_of is given.

    mean_gap_us: mean time between two requests
    lifetime_us: the time after which a created object is deleted
    scale: resource, namespace and name of the object, and the bounds of its number of replicas
    list_of: the resource that is listed
    user, groups, clients: see `LoadSpec`
    """

    mean_gap_us: int
    create: Mapping[str, Any] | None = None
    lifetime_us: int | None = None
    scale: tuple[str, str, str, int, int] | None = None
    list_of: str = ""
    user: str | None = None
    groups: tuple[str, ...] | None = None
    clients: int | None = None
    untraced: ClassVar[tuple[str, ...]] = ("create",)

    def begin(self, stage: Stage, step: str) -> Undo:
        """Begin the load; the result ends it."""
        spec = LoadSpec(
            mean_gap_us=self.mean_gap_us,
            create=self.create,
            lifetime_us=self.lifetime_us,
            scale=self.scale,
            list_of=self.list_of,
            user=self.user or "",
            groups=self.groups or (),
            clients=self.clients or 1,
        )
        cluster, what = stage.cluster, f"load {step}"
        undo: Undo = cluster.admin.generate(step, spec)
        hosts = [name for name, server in cluster.api_servers.items() if server.options.capacity_nano]
        if not hosts:
            return undo
        # Servers that are full of it explain the silence of others.
        cluster.kernel.standing.begin(what, hosts, mute=False)

        def end() -> None:
            cluster.kernel.standing.end(what, hosts)
            undo()

        return end


def _check(context: UserContext, given: Load) -> Generate:
    if given.groups and not given.user:
        raise context.error("groups", "'groups' goes with 'user'", "name the user that has these groups")
    job = _job(context, given)
    clients = None if isinstance(given.clients, UnsetType) else given.clients
    return replace(job, user=given.user or None, groups=tuple(given.groups) or None, clients=clients)


def _job(context: UserContext, given: Load) -> Generate:
    gap_us = context.rate(given.rate, "rate")
    if gap_us < GAP_MIN_US:
        raise context.error("rate", f"{given.rate} is too much", f"at most {SECOND // GAP_MIN_US:,}/s")
    jobs = [key for key in ("create", "scale", "list_") if getattr(given, key) is not UNSET]
    if len(jobs) != 1:
        raise context.error("", "a load does one of create, scale and list")
    if given.lifetime is not UNSET and jobs != ["create"]:
        raise context.error("lifetime", "'lifetime' goes with 'create'")
    if isinstance(given.create, dict):
        manifest = context.manifest(given.create, "create")
        return Generate(
            gap_us, create=manifest, lifetime_us=context.optional_duration(given.lifetime, "lifetime")
        )
    if isinstance(given.scale, LoadScale):
        wanted = given.scale
        check_object(context, wanted.resource, wanted.namespace, wanted.name, within=("scale",))
        low, high = wanted.between
        if high < low:
            raise context.error(("scale", "between"), f"the range {low} to {high} ends before it begins")
        return Generate(gap_us, scale=(wanted.resource, wanted.namespace, wanted.name, low, high))
    context.resource(str(given.list_), "list")
    return Generate(gap_us, list_of=str(given.list_))


KIND = StepKind(
    name="load",
    parameters=Load,
    check=_check,
    ends=Ends.LATER,
    documentation="""
Programs send requests at random instants: they create objects and delete them again, scale an object, or list a resource.""",
    example="""
- {at: 17m, load: {rate: 2/s, lifetime: 30s, create: {apiVersion: v1, kind: ConfigMap, metadata: {name: burst}}}, for: 1m}
- {at: 17m, load: {rate: 6/1m, scale: {resource: deployments, name: web, between: [3, 12]}}, for: 5m}
- {at: 17m, load: {rate: 10/s, list: pods}, for: 1m}
- {at: 17m, load: {rate: 30/s, list: pods, user: "system:serviceaccount:telemetry:agent", clients: 20}, for: 1m}""",
)
