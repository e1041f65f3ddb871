"""What the check of a step uses: conversions and selections with places in the file."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import field
from fnmatch import fnmatchcase
from typing import Any, Protocol

import msgspec
from msgspec import UNSET

from actors.node.runtime.profile import manifest_file
from sim.api.schema.resource import Resource
from sim.api.scheme.scheme import Scheme
from sim.dataclass import dataclass
from sim.errors import FollowUp, InputError, suggestion
from sim.faults.shared.context import Key
from sim.faults.shared.kinds import Ends, StepKind
from sim.faults.shared.parameters import Amount, Nodes, OneOrMore
from sim.faults.shared.wording import first_names
from sim.ident import NAMES
from sim.options.base import raw_option
from sim.options.node.proxy import proxy_of
from sim.options.storage_drivers import driver_process
from sim.scenario.actions import KINDS
from sim.scenario.actions.context import Inner
from sim.scenario.manifests.naming import translate
from sim.scenario.plan.own_kinds import Planned, resource_named
from sim.scenario.plan.plan import ClusterPlan, NodePlan
from sim.scenario.plan.storage import storage_objects
from sim.scenario.read.source import Document, Path_
from sim.scenario.schema.decode import plain_message
from sim.units import quantity_milli, quantity_value

ROLES = ("controller-manager-leader", "scheduler-leader")
SERVERS = "apiserver-"  # the beginning of the names of API servers


class Compiler(Protocol):
    """The compiler of a scenario, as the check of a step uses it."""

    document: Document

    def part(self, path: Path_) -> AbstractContextManager[None]:
        """A part of the document, of which the errors are collected."""
        ...

    def duration(self, text: str, path: Path_) -> int:
        """Microseconds of a duration."""
        ...

    def latency(self, text: str | None, path: Path_) -> tuple[int, int] | None:
        """Both ends of a range of durations."""
        ...

    def rate(self, text: str, path: Path_) -> int:
        """Mean microseconds between events that occur at a rate."""
        ...

    def objects_of(
        self, files: Sequence[str], objects: Sequence[Mapping[str, Any]], path: Path_, naming: str
    ) -> list[Mapping[str, Any]]:
        """The objects of an `apply` step."""
        ...

    def manifest(self, value: Any, path: Path_, naming: str) -> Mapping[str, Any]:
        """One object that is written out in the scenario."""
        ...

    def static_pod(self, value: Any, path: Path_, naming: str) -> dict[str, Any]:
        """The pod of a manifest that an agent runs by itself."""
        ...


# Namespace and name of the objects of a kind (its plural) that are there already.
Existing = Callable[[str], Sequence[tuple[str, str]]]


def _none(plural: str) -> Sequence[tuple[str, str]]:
    return ()


@dataclass(slots=True)
class Known:
    """What the steps of a scenario may name; steps add what they make, in the order of the file.

    actors: processes of the control plane and of the user, and roles
    own_programs: those of the user
    objects: plural, namespace and name of each object that is made so far
    existing: lists namespace and name of the objects of a kind that a running cluster has
    planned: the kinds that the scenario defines itself
    metrics: True if the cluster has a metrics server
    cloud: True if the controller manager queries a cloud for instances
    drivers: names of the storage drivers
    certified: names of processes, roles and nodes with a certificate that ends
    proxied: True if the nodes have proxies, so that clients may send requests
    files: of static pods
    steps: the kind of each earlier step, by its name
    sure: False if the cluster or its objects have errors: what a step names may be among these
    """

    nodes: tuple[NodePlan, ...]
    actors: tuple[str, ...]
    objects: list[tuple[str, str, str]]
    scheme: Scheme
    planned: Planned
    metrics: bool = False
    cloud: bool = False
    drivers: tuple[str, ...] = ()
    certified: tuple[str, ...] = ()
    proxied: bool = False
    own_programs: tuple[str, ...] = ()
    files: dict[str, None] = field(default_factory=dict)
    steps: dict[str, str] = field(default_factory=dict)
    sure: bool = True
    existing: Existing = _none

    def of_kind(self, plural: str) -> list[tuple[str, str]]:
        """Namespace and name of the objects of a kind that steps may name."""
        new = [(namespace, name) for kind, namespace, name in self.objects if kind == plural]
        return [*new, *self.existing(plural)]

    @staticmethod
    def of(cluster: ClusterPlan, objects: Sequence[Mapping[str, Any]]) -> Known:
        """What the steps of a scenario with this cluster and these objects may name."""
        control = [
            f"{name}-{index}"
            for name, part in (
                ("apiserver", cluster.api_server),
                ("controller-manager", cluster.controller_manager),
                ("scheduler", cluster.scheduler),
                *cluster.schedulers.items(),
            )
            for index in range(part.replicas)
        ]
        roles = [role for role in ROLES if f"{role.removesuffix('-leader')}-0" in control]
        own = cluster.own_programs
        drivers = [driver_process(one.driver.name) for one in cluster.storage]
        proxied = cluster.kube_proxy is not None
        proxies = [proxy_of(node.name) for node in cluster.nodes] if proxied else []
        planned = Planned()
        scheme = Scheme(NAMES[cluster.naming], frozenset()).beside(planned)
        entry = Known(
            cluster.nodes,
            ("storage", *control, *drivers, *proxies, *own, *roles),
            [],
            scheme,
            planned,
            cluster.metrics,
        )
        entry.drivers = tuple(one.driver.name for one in cluster.storage)
        entry.cloud = bool(raw_option(cluster.controller_manager.flags, "cloud-provider"))
        entry.proxied, entry.own_programs = proxied, own
        entry.certified = cluster.certified((*control, *roles))
        entry.add(storage_objects(cluster.storage, scheme.names))
        entry.add(objects)
        entry.files = {manifest_file(pod): None for node in cluster.nodes for pod in node.static_pods}
        return entry

    def add(self, objects: Sequence[Mapping[str, Any]]) -> None:
        """Note objects that are made."""
        for obj in objects:
            meta = obj["metadata"]
            self.planned.add(self.scheme, obj)
            resource = self.scheme.by_kind(obj["apiVersion"], obj["kind"])
            assert resource is not None
            self.objects.append((resource.plural, str(meta.get("namespace", "default")), str(meta["name"])))


@dataclass(slots=True)
class StepContext:
    """The check of one step; satisfies `sim.scenario.actions.context.UserContext`.

    path: of the step's action in the document
    checks: the check of the step, which cannot be within itself
    """

    compiler: Compiler
    known: Known
    path: Path_
    naming: str
    checks: object = None

    @property
    def document(self) -> Document:
        """The scenario file."""
        return self.compiler.document

    def error(self, key: Key, message: str, remedy: str = "") -> InputError:
        """The error to raise at a parameter, or at the step if `key` is empty."""
        return self.document.error(self._at(key), message, remedy)

    def unknown(self, key: Key, message: str, remedy: str = "") -> InputError:
        """The error of a name that is not known."""
        kind = InputError if self.known.sure else FollowUp
        return kind(message, self.document.place(self._at(key)), remedy)

    def _at(self, key: Key) -> Path_:
        keys = (key,) if isinstance(key, str) and key else key
        return (*self.path, *keys)

    # --- conversions ------------------------------------------------------------------------------

    def duration(self, text: str, key: str) -> int:
        """Microseconds of a duration."""
        return self.compiler.duration(text, self._at(key))

    def positive(self, text: str, key: str) -> int:
        """Microseconds of a duration that is not 0: the step would have no effect."""
        value = self.duration(text, key)
        if not value:
            raise self.error(key, f"{text} has no effect")
        return value

    def optional_duration(self, text: object, key: str) -> int | None:
        """Microseconds of a duration; None if it is not given."""
        return self.duration(text, key) if isinstance(text, str) else None

    def optional_span(self, text: str | None, key: str) -> tuple[int, int] | None:
        """Both ends of a range of durations; None if it is not given."""
        return self.compiler.latency(text, self._at(key))

    def rate(self, text: str, key: str) -> int:
        """Mean microseconds between events that come at a rate such as 5/s."""
        return self.compiler.rate(text, self._at(key))

    def bytes(self, value: Amount, key: str) -> int:
        """A quantity as a whole number."""
        return self._amount(quantity_value, value, key, "write it as 80Mi or 1500")

    def milli(self, value: Amount, key: str) -> int:
        """A quantity in thousandths."""
        return self._amount(quantity_milli, value, key, "write it as 250m or 2")

    def _amount(self, read: Callable[[Amount], int], value: Amount, key: str, remedy: str) -> int:
        try:
            amount = read(value)
        except ValueError:
            raise self.error(key, f"{value!r} is not a quantity", remedy) from None
        if amount < 0:
            raise self.error(key, f"{value!r} is negative", remedy)
        return amount

    def labels(self, text: str, key: str = "selector") -> Mapping[str, str]:
        """The pairs of an equality selector."""
        pairs = [part.replace("==", "=").partition("=") for part in text.split(",") if part.strip()]
        if any(not equals or not name.strip() or name.endswith("!") for name, equals, _ in pairs):
            raise self.error(
                key, f"{text!r} is not made of label=value pairs", "write it as app=web,tier=front"
            )
        return {name.strip(): value.strip() for name, _, value in pairs}

    # --- selections -------------------------------------------------------------------------------

    def resource(self, name: str, key: Key = "resource") -> Resource:
        """A resource by its plural, perhaps with its group ("events.events.orch.io")."""
        try:
            return resource_named(self.known.scheme, name)
        except InputError as error:
            raise self.unknown(key, error.message, error.remedy) from None

    def nodes(self, wanted: Nodes, key: str = "nodes") -> tuple[str, ...]:
        """Names of the nodes of a selection, one at least."""
        nodes = self.known.nodes
        zones = sorted({node.zone for node in nodes if node.zone})
        self._check_names(wanted.name, [node.name for node in nodes], (key, "name"), "node")
        self._check_names(wanted.zone, zones, (key, "zone"), "zone")
        labels = translate({} if wanted.labels is UNSET else wanted.labels, self.naming)
        result = [node for node in nodes if _selects(wanted, labels, node, self.naming)]
        if not result:
            remedy = f"{len(nodes)} nodes" + (f" in zones {', '.join(zones)}" if zones else "")
            raise self.unknown(key, "no node matches this selection", f"there are {remedy}")
        if isinstance(wanted.count, int) and wanted.count > len(result):
            raise self.unknown(key, f"cannot take the first {wanted.count}: there are {len(result)}")
        return tuple(node.name for node in result[: None if wanted.count is UNSET else wanted.count])

    def _check_names(self, wanted: Any, known: Sequence[str], key: Key, what: str) -> None:
        for name in [wanted] if isinstance(wanted, str) else wanted or ():
            if not any(fnmatchcase(one, name) for one in known):
                remedy = suggestion(name, known, first_names(known, what))
                raise self.unknown(key, f"there is no {what} {name!r}", remedy)

    def actors(self, wanted: OneOrMore, key: str, hosts: bool = False) -> tuple[str, ...]:
        """Names of processes.  hosts: True if a role such as `scheduler-leader` is an error."""
        names = [wanted] if isinstance(wanted, str) else wanted
        if not names:
            raise self.error(key, "the list is empty")
        result: list[str] = []
        for name in names:
            if hosts and name in ROLES:
                raise self.error(
                    key,
                    f"the process that is {name!r} changes",
                    f"name hosts, such as {name.removesuffix('-leader')}-0",
                )
            members = self._processes(name)
            if hosts and self.known.proxied:
                home = next((node.name for node in self.known.nodes if proxy_of(node.name) in members), "")
                if home:
                    raise self.error(key, f"{proxy_of(home)} is no host, it runs on {home}", "name the node")
            if not members:
                others = f"known are {', '.join(self.known.actors)}, node names, 'nodes' and 'zone Z'"
                nodes = (node.name for node in self.known.nodes)
                remedy = suggestion(name, [*self.known.actors, *nodes], others)
                raise self.unknown(key, f"no actor is named {name!r}", remedy)
            result += [member for member in members if member not in result]
        return tuple(result)

    def _processes(self, name: str) -> list[str]:
        """The processes that a name means: a zone, all nodes, a group of replicas, or one process."""
        zone, nodes = name.removeprefix("zone "), self.known.nodes
        if zone != name:
            return [node.name for node in nodes if node.zone == zone]
        if name == "nodes":
            return [node.name for node in nodes]
        everything = (*self.known.actors, *(node.name for node in nodes))
        alone = {*ROLES, *self.known.own_programs}  # in no group
        return [one for one in everything if one == name or (one.startswith(f"{name}-") and one not in alone)]

    def servers(self, wanted: OneOrMore) -> tuple[str, ...]:
        """Names of API servers, of the parameter `apiServer`."""
        result = self.actors(wanted, "apiServer")
        for name in result:
            if not name.startswith(SERVERS):
                raise self.error("apiServer", f"{name} is no API server", "name one, such as apiserver-0")
        return result

    # --- objects ----------------------------------------------------------------------------------

    def static_pod(self, value: Any, key: str) -> tuple[str, dict[str, Any]]:
        """The default name of the file of a static pod, and the pod with its defaults."""
        pod = self.compiler.static_pod(value, self._at(key), self.naming)
        return manifest_file(pod), pod

    def objects(self, files: Sequence[str], objects: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
        """The objects of an `apply` step, those of files first."""
        return self.compiler.objects_of(files, objects, self.path, self.naming)

    def manifest(self, value: Any, key: str) -> Mapping[str, Any]:
        """One object that is written out in the scenario."""
        return self.compiler.manifest(value, self._at(key), self.naming)

    # --- actions within the step ------------------------------------------------------------------

    def acts_on_nodes(self, name: str, key: Key) -> bool:
        """True if the kind of step of this name has the parameter `nodes`."""
        return "nodes" in self._kind(name, key).parameters.__struct_fields__

    def _kind(self, name: str, key: Key) -> StepKind:
        kinds = {kind.name: kind for kind in KINDS.values() if kind.check is not self.checks}
        if name not in kinds:
            raise self.error(key, f"there is no action {name!r}", suggestion(name, [*kinds]))
        return kinds[name]

    def inner(self, name: str, body: Any, lasts: Any, key: Key) -> Inner:
        """An action within this step.  lasts: its `for`, None for none"""
        kind = self._kind(name, key)
        try:
            parameters = msgspec.convert(body, kind.parameters)
        except msgspec.ValidationError as error:
            raise self.error(key, f"{name}: {plain_message(error)}") from None
        context = StepContext(self.compiler, self.known, self._at(key), self.naming)
        action, entry = kind.check(context, parameters), lasts or kind.duration_of(parameters)
        if lasts is not None and (kind.ends is not Ends.LATER or not action.lasts):
            raise self.error(key, f"'for' has no effect on {name}: it has no end")
        return name, action, None if entry is None else self.compiler.latency(str(entry), self._at(key))


def _selects(wanted: Nodes, labels: Mapping[str, str], node: NodePlan, naming: str) -> bool:
    """True if a node matches; labels are those of its group, and those that every machine has."""

    def among(value: str, choice: Any) -> bool:
        globs = [choice] if isinstance(choice, str) else choice
        return choice is UNSET or any(fnmatchcase(value, glob) for glob in globs)

    names = NAMES[naming]
    own = {names.label_hostname: node.name, names.label_zone: node.zone, names.label_region: node.region}
    return (
        among(node.zone, wanted.zone)
        and among(node.name, wanted.name)
        and all(node.labels.get(key, own.get(key)) == value for key, value in labels.items())
    )
