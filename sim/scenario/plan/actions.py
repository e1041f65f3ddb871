"""One timeline step's body to an `Action`, with everything it names checked against the cluster."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from typing import Any, Protocol

from msgspec import UNSET

from actors.node.runtime.profile import manifest_file
from sim.api.schema.resource import Resource
from sim.api.schema.scheme import Scheme
from sim.errors import InputError, suggestion
from sim.ident import NAMES
from sim.options.base import raw_option
from sim.options.cloud import CLOUD
from sim.scenario.check import soundness
from sim.scenario.plan import plan
from sim.scenario.plan.own_kinds import Planned, resource_named
from sim.scenario.plan.plan import Action, ClusterPlan, NodePlan
from sim.scenario.read import steps
from sim.scenario.read.common import Amount
from sim.scenario.read.naming import translate
from sim.scenario.read.source import Document
from sim.scenario.read.taints import taints_problem
from sim.units import SECOND, quantity_milli, quantity_value

Path_ = tuple[str | int, ...]
ROLES = ("controller-manager-leader", "scheduler-leader")
NAMED_MAX = 6  # of what there is, in a remedy
SERVERS = "apiserver-"  # what names of API servers begin with
LOAD_GAP_MIN_US = 100  # 10,000 requests a second are more than a control plane serves


class Compiler(Protocol):
    """What planning an action needs of its surroundings."""

    document: Document

    def duration(self, text: str, path: Path_) -> int: ...
    def latency(self, text: str | None, path: Path_) -> tuple[int, int] | None: ...
    def rate(self, text: str, path: Path_) -> int: ...
    def objects_of(self, body: steps.Apply, path: Path_, naming: str) -> list[Mapping[str, Any]]: ...
    def manifest(self, value: Any, path: Path_, naming: str) -> Mapping[str, Any]: ...
    def static_pod(self, value: Any, path: Path_, naming: str) -> dict[str, Any]: ...


@dataclass(slots=True)
class Known:
    """What steps may name: nodes, actors, objects made so far, kinds of earlier steps by name."""

    nodes: tuple[NodePlan, ...]
    actors: tuple[str, ...]
    objects: list[tuple[str, str, str]]
    scheme: Scheme
    planned: Planned
    metrics: bool = False
    cloud: bool = False
    files: dict[str, None] = field(default_factory=dict)  # of static pods
    steps: dict[str, str] = field(default_factory=dict)

    @staticmethod
    def of(cluster: ClusterPlan, objects: Sequence[Mapping[str, Any]]) -> Known:
        control = [
            f"{name}-{index}"
            for name, part in (
                ("apiserver", cluster.api_server),
                ("controller-manager", cluster.controller_manager),
                ("scheduler", cluster.scheduler),
            )
            for index in range(part.replicas)
        ]
        planned = Planned()
        scheme = Scheme(NAMES[cluster.naming]).beside(planned)
        known = Known(cluster.nodes, ("storage", *control, *ROLES), [], scheme, planned, cluster.metrics)
        known.cloud = bool(raw_option(cluster.controller_manager.flags, "cloud-provider"))
        known.add(objects)
        known.files = {manifest_file(pod): None for node in cluster.nodes for pod in node.static_pods}
        return known

    def add(self, objects: Sequence[Mapping[str, Any]]) -> None:
        for obj in objects:
            meta = obj["metadata"]
            self.planned.add(self.scheme, obj)
            resource = self.scheme.by_kind(obj["apiVersion"], obj["kind"])
            assert resource is not None
            self.objects.append((resource.plural, str(meta.get("namespace", "default")), str(meta["name"])))


def plan_action(compiler: Compiler, known: Known, body: Any, path: Path_, naming: str) -> Action:
    """The action of a step.  Raises InputError with the place of what is wrong."""
    return _PLANNERS[type(body)](_Where(compiler, known, path, naming), body)


@dataclass(slots=True)
class _Where:
    compiler: Compiler
    known: Known
    path: Path_
    naming: str

    def error(self, key: str, message: str, remedy: str = "") -> InputError:
        return self.compiler.document.error((*self.path, key) if key else self.path, message, remedy)

    def duration(self, text: str, key: str) -> int:
        return self.compiler.duration(text, (*self.path, key))

    def positive(self, text: str, key: str) -> int:
        """A duration that is not 0: nothing would happen."""
        value = self.duration(text, key)
        if not value:
            raise self.error(key, f"{text} has no effect")
        return value

    def maybe(self, text: Any, key: str) -> int | None:
        return self.duration(text, key) if isinstance(text, str) else None

    def bytes(self, value: Amount, key: str) -> int:
        return self._amount(quantity_value, value, key, "write it as 80Mi or 1500")

    def milli(self, value: Amount, key: str) -> int:
        return self._amount(quantity_milli, value, key, "write it as 250m or 2")

    def _amount(self, read: Callable[[Amount], int], value: Amount, key: str, remedy: str) -> int:
        try:
            amount = read(value)
        except ValueError:
            raise self.error(key, f"{value!r} is not a quantity", remedy) from None
        if amount < 0:
            raise self.error(key, f"{value!r} is negative", remedy)
        return amount

    def resource(self, name: str, key: str = "resource") -> Resource:
        """A resource by its plural (and group, "events.events.orch.io")."""
        try:
            return resource_named(self.known.scheme, name)
        except InputError as error:
            raise self.error(key, error.message, error.remedy) from None

    def labels(self, text: str, key: str = "selector") -> Mapping[str, str]:
        """The pairs of an equality selector."""
        pairs = [part.replace("==", "=").partition("=") for part in text.split(",") if part.strip()]
        if any(not equals or not name.strip() or name.endswith("!") for name, equals, _ in pairs):
            raise self.error(
                key, f"{text!r} is not made of label=value pairs", "write it as app=web,tier=front"
            )
        return {name.strip(): value.strip() for name, _, value in pairs}

    def nodes(self, wanted: steps.Nodes, key: str = "nodes") -> tuple[str, ...]:
        everyone = self.known.nodes
        self._all_known(wanted.name, [node.name for node in everyone], (key, "name"), "node")
        self._all_known(
            wanted.zone, sorted({node.zone for node in everyone if node.zone}), (key, "zone"), "zone"
        )
        labels = translate({} if wanted.labels is UNSET else wanted.labels, self.naming)
        found = [node for node in everyone if _selects(wanted, labels, node, self.naming)]
        if not found:
            zones = sorted({node.zone for node in everyone if node.zone})
            remedy = f"{len(everyone)} nodes" + (f" in zones {', '.join(zones)}" if zones else "")
            raise self.error(key, "no node matches this selection", f"there are {remedy}")
        if isinstance(wanted.count, int) and wanted.count > len(found):
            raise self.error(key, f"cannot take the first {wanted.count}: there are {len(found)}")
        return tuple(node.name for node in found[: None if wanted.count is UNSET else wanted.count])

    def _all_known(self, wanted: Any, known: Sequence[str], path: Path_, what: str) -> None:
        for name in [wanted] if isinstance(wanted, str) else wanted or ():
            if not any(fnmatchcase(one, name) for one in known):
                remedy = suggestion(name, known, _there_are(known, what))
                document = self.compiler.document
                raise document.error((*self.path, *path), f"there is no {what} {name!r}", remedy)

    def actors(self, wanted: str | list[str], key: str, hosts: bool = False) -> tuple[str, ...]:
        names = [wanted] if isinstance(wanted, str) else wanted
        if not names:
            raise self.error(key, "the list names nobody")
        found: list[str] = []
        nodes = {node.name: node for node in self.known.nodes}
        for name in names:
            zone = name.removeprefix("zone ")
            if zone != name:
                members = [node.name for node in self.known.nodes if node.zone == zone]
            elif name == "nodes":
                members = list(nodes)
            else:
                members = [
                    a
                    for a in (*self.known.actors, *nodes)
                    if a == name or (a.startswith(f"{name}-") and a not in ROLES)
                ]
            if hosts and name in ROLES:
                raise self.error(
                    key, f"who is {name!r} changes", f"name hosts, such as {name.removesuffix('-leader')}-0"
                )
            if not members:
                others = f"known are {', '.join(self.known.actors)}, node names, 'nodes' and 'zone Z'"
                remedy = suggestion(name, [*self.known.actors, *nodes], others)
                raise self.error(key, f"no actor is named {name!r}", remedy)
            found += [member for member in members if member not in found]
        return tuple(found)

    def servers(self, wanted: str | list[str]) -> tuple[str, ...]:
        """API servers."""
        found = self.actors(wanted, "apiServer")
        for name in found:
            if not name.startswith(SERVERS):
                raise self.error("apiServer", f"{name} is no API server", "name one, such as apiserver-0")
        return found

    def one_or_matching(self, body: Any, verb: str) -> tuple[str, str]:
        """Name and selector of a target, of which one is given."""
        if (body.name is UNSET) == (body.selector is UNSET) or body.name == "":
            raise self.error("", f"{verb} either one name or what a selector matches")
        return (body.name, "") if isinstance(body.name, str) else ("", body.selector)


def _there_are(known: Sequence[str], what: str) -> str:
    few = ", ".join(known[:NAMED_MAX]) + (
        f" and {len(known) - NAMED_MAX} more" if len(known) > NAMED_MAX else ""
    )
    return f"there are {few}" if known else f"there is no {what} at all"


def _selects(wanted: steps.Nodes, labels: Mapping[str, str], node: NodePlan, naming: str) -> bool:
    """Labels: those of the machine's group, and those that every machine says of itself."""

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


def _heal(where: _Where, body: steps.Heal) -> Action:
    if (body.nodes is UNSET) == (body.step is UNSET):
        raise where.error("", "heals either nodes or a step")
    if isinstance(body.step, str):
        if body.step.partition("/")[0] not in where.known.steps:
            raise where.error("step", f"no earlier step is named {body.step!r}")
        return plan.EndStep(body.step)
    assert isinstance(body.nodes, steps.Nodes)
    return plan.HealNodes(where.nodes(body.nodes))


def _fail(where: _Where, body: steps.Fail) -> Action:
    if body.how.startswith("instance-"):
        _in_a_cloud(where, "how")
    return plan.FailNodes(where.nodes(body.nodes), body.how, _by(where, body, "slow-disk"))


def _cloud(where: _Where, body: steps.Cloud) -> Action:
    _in_a_cloud(where, "how")
    return plan.CloudFault(body.how, _by(where, body, "slow"))


def _in_a_cloud(where: _Where, key: str) -> None:
    if not where.known.cloud:
        remedy = f"give the controller manager the flag cloud-provider: {CLOUD}"
        raise where.error(key, "nobody asks a cloud about instances", remedy)


def _by(where: _Where, body: steps.Fail | steps.Storage | steps.Cloud, slow: str) -> int:
    """The delay that goes with the one way to be slow."""
    if (body.how == slow) != isinstance(body.by, str):
        text = "is missing" if body.how == slow else f"has no effect on {body.how!r}"
        raise where.error("by", f"'by' {text}", f"it says how much longer things take with {slow!r}")
    return where.positive(body.by, "by") if isinstance(body.by, str) else 0


def _pressure(where: _Where, body: steps.Pressure) -> Action:
    available = where.bytes(body.available, "available")
    nodes = where.nodes(body.nodes)
    if body.resource == "memory":
        for node in where.known.nodes:
            whole = node.capacity.get("memory", "")
            if node.name in nodes and whole and available >= quantity_value(whole):
                raise where.error("available", f"{node.name} has {whole}: {body.available} is no shortage")
    if body.resource == "pid":  # of it alone the agent's defaults say nothing
        for node in where.known.nodes:
            told = [str(raw_option(node.flags, flag) or "") for flag in ("eviction-hard", "eviction-soft")]
            if node.name in nodes and "pid.available" not in "".join(told):
                remedy = "name pid.available among its flags, in eviction-hard"
                raise where.error("resource", f"nobody watches the process numbers of {node.name}", remedy)
    return plan.PressNodes(nodes, body.resource, available, where.duration(body.ramp, "ramp"))


def _workload(where: _Where, body: steps.Workload) -> Action:
    """Which pods, and what of their behaviour changes."""
    changes: dict[str, Any] = {
        "exit_after_us": where.maybe(body.exit_after, "exitAfter"),
        "exit_code": _given(body.exit_code),
        "unready": None if body.ready is UNSET else not body.ready,
        "ready_after_us": where.maybe(body.ready_after, "readyAfter"),
        "start_error": _given(body.start_error),
        "pull_error": _given(body.pull_error),
        "stop_us": -1 if body.stop == "never" else where.maybe(body.stop, "stop"),
        "memory": where.bytes(body.memory, "memory") if isinstance(body.memory, Amount) else None,
        "log_rate": where.bytes(body.log_rate, "logRate") if isinstance(body.log_rate, Amount) else None,
        "cpu_milli": where.milli(body.cpu, "cpu") if isinstance(body.cpu, Amount) else None,
        "load_milli": where.milli(body.load, "load") if isinstance(body.load, Amount) else None,
    }
    if all(change is None for change in changes.values()):
        raise where.error("", "changes nothing", "give exitAfter, exitCode, ready, startError, pullError, …")
    if changes["exit_code"] is not None and changes["exit_after_us"] is None:
        raise where.error("exitCode", "'exitCode' has no effect without 'exitAfter'")
    narrowed = body.namespace or body.selector or body.name or body.container
    if changes["pull_error"] is not None and (not body.image or narrowed):
        raise where.error("pullError", "an image fails for every pod", "give 'image' and no pods")
    for key in ("start_error", "pull_error"):
        if changes[key] == "":
            shown = key.replace("_e", "E")
            raise where.error(shown, f"an empty {shown!r} is none", "give the error's words")
    for key in ("cpu", "load"):
        if changes[f"{key}_milli"] is not None and not where.known.metrics:
            raise where.error(key, f"nobody sees {key!r} without metrics", "give cluster.metrics: true")
    prefix = body.name.removesuffix("*")  # as globs elsewhere would say it
    if any(mark in prefix for mark in "*?["):
        raise where.error("name", f"{body.name!r} is no beginning of a name")
    return plan.Behave(
        nodes=where.nodes(body.nodes if isinstance(body.nodes, steps.Nodes) else steps.Nodes()),
        namespace=body.namespace,
        labels=where.labels(body.selector),
        prefix=prefix,
        image=body.image,
        container=body.container,
        **changes,
    )


def _manifest(where: _Where, body: steps.Manifest) -> Action:
    given = [how for how in ("write", "spoil", "remove") if getattr(body, how) is not UNSET]
    if len(given) != 1:
        raise where.error("", "does one of write, spoil and remove")
    nodes, (how,) = where.nodes(body.nodes), given
    if isinstance(body.write, dict):
        pod = where.compiler.static_pod(body.write, (*where.path, how), where.naming)
        file = body.file or manifest_file(pod)
        where.known.files[file] = None
        return plan.ChangeManifest(nodes, how, file, pod)
    if body.file:
        raise where.error("file", "'file' goes with 'write'")
    file = getattr(body, how)
    if file not in where.known.files:
        near = suggestion(file, [*where.known.files], _there_are([*where.known.files], "file"))
        raise where.error(how, f"no file of a static pod is called {file!r}", near)
    return plan.ChangeManifest(nodes, how, file)


def _metric(where: _Where, body: steps.Metric) -> Action:
    given = [key for key in ("value", "load") if getattr(body, key) is not UNSET]
    if len(given) != 1:
        raise where.error("", "a metric has one of 'value' and 'load'", "give how much is measured")
    if not body.name:
        raise where.error("name", "a metric has a name")
    if not where.known.metrics:
        raise where.error("", "nobody sees metrics", "give cluster.metrics: true")
    key = given[0]
    of, _, about = ("", "", "") if body.of is UNSET else body.of.partition("/")
    resource = where.resource(of, "of") if of else None
    pods = resource is not None and resource.rule == "pods" and not about
    if body.of is not UNSET and not pods and not (of and about):
        raise where.error("of", f"{body.of!r} names no object", "write pods, or one object as services/web")
    for only, present in (("load", key == "load"), ("selector", bool(body.selector))):
        if present and not pods:
            raise where.error(only, f"{only!r} is of pods", "give of: pods")
    return plan.TellMetric(
        name=body.name,
        value_milli=where.milli(getattr(body, key), key),
        namespace=body.namespace,
        labels=body.labels,
        kind=plan.group_kind(resource.group, resource.kind) if resource else "",
        about=about,
        selector=where.labels(body.selector) if pods else None,
        load=key == "load",
    )


def _given(value: Any) -> Any:
    return None if value is UNSET else value


def _sides(where: _Where, between: Sequence[str | list[str]]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The hosts of either side of a disturbance."""
    one, other = (where.actors(group, "between", hosts=True) for group in between)
    if one == other and len(one) == 1:
        raise where.error("between", f"there is no network between {one[0]} and itself")
    for side, across in ((one, other), (other, one)):
        strange = [host for host in across if "storage" in side and not host.startswith(SERVERS)]
        if strange or ("storage" in side and len(side) > 1):
            who = strange[0] if strange else next(host for host in side if host != "storage")
            raise where.error(
                "between",
                f"only API servers reach the storage, {who} does not",
                "give between: [apiserver-0, storage], and the rest in a step of its own",
            )
    if not _asks(one, other) and not _asks(other, one) and "storage" not in (*one, *other):
        raise where.error(
            "between",
            f"nothing goes between {one[0]} and {other[0]}: every process talks to API servers alone",
            "name API servers on one side, as in between: [zone a, apiserver]",
        )
    return one, other


def _asks(sources: Sequence[str], targets: Sequence[str]) -> bool:
    """Whether requests go from these hosts to those."""
    clients = [host for host in sources if host != "storage" and not host.startswith(SERVERS)]
    return bool(clients) and any(host.startswith(SERVERS) for host in targets)


def _partition(where: _Where, body: steps.Partition) -> Action:
    one, other = _sides(where, body.between)
    return plan.Disturb(one, other, cut=True, one_way=body.one_way)


def _network(where: _Where, body: steps.Network) -> Action:
    one, other = _sides(where, body.between)
    text = body.latency if isinstance(body.latency, str) else None
    latency = where.compiler.latency(text, (*where.path, "latency"))
    if latency is None and not body.loss and not body.duplication:
        raise where.error("", "disturbs nothing", "give latency, loss or duplication")
    if body.duplication and not _asks(one, other) and (body.one_way or not _asks(other, one)):
        remedy = "turn 'between' round" if _asks(other, one) else "leave it out"
        raise where.error(
            "duplication", "has no effect: only requests to API servers are carried out twice", remedy
        )
    return plan.Disturb(one, other, False, body.one_way, latency, body.loss, body.duplication)


def _actor_fault(where: _Where, body: steps.Stall) -> Action:
    return plan.ActorFault(str(where.path[-1]), where.actors(body.actor, "actor"))


def _clock(where: _Where, body: steps.Clock) -> Action:
    text = body.offset
    offset = where.duration(text[1:] if text[:1] in ("+", "-") else text, "offset")
    if not offset and not body.drift_ppm:
        raise where.error("", "the clock stays right", "give offset or driftPpm")
    return plan.SkewClock(
        where.actors(body.actor, "actor"), -offset if text.startswith("-") else offset, body.drift_ppm
    )


def _lose_lease(where: _Where, body: steps.LoseLease) -> Action:
    return plan.LoseLease(body.component, body.holder)


def _overload(where: _Where, body: steps.Overload) -> Action:
    if body.by is UNSET and body.inflight is UNSET:
        raise where.error("", "overloads nothing", "give by or inflight")
    by_us = where.positive(body.by, "by") if isinstance(body.by, str) else 0
    return plan.Overload(where.servers(body.api_server), by_us, _given(body.inflight))


def _drop_watches(where: _Where, body: steps.DropWatches) -> Action:
    if body.resource:
        where.resource(body.resource)
    return plan.DropWatches(body.resource, body.client)


def _apply(where: _Where, body: steps.Apply) -> Action:
    objects = where.compiler.objects_of(body, where.path, where.naming)
    where.known.add(objects)
    return plan.ApplyObjects(tuple(objects))


def _known_object(where: _Where, resource: str, namespace: str, name: str) -> None:
    plural = where.resource(resource).plural
    of_kind = [(ns, n) for p, ns, n in where.known.objects if p == plural]
    if not of_kind:
        raise where.error("resource", f"no {plural} are made by this scenario")
    if (namespace, name) not in of_kind:
        near = ", ".join(f"{ns}/{n}" for ns, n in of_kind)
        raise where.error(
            "name", f"no {plural} {namespace}/{name} is made by this scenario", f"there are: {near}"
        )


def _scale(where: _Where, body: steps.Scale) -> Action:
    _known_object(where, body.resource, body.namespace, body.name)
    return plan.ScaleObject(body.resource, body.namespace, body.name, body.replicas)


def _delete(where: _Where, body: steps.Delete) -> Action:
    where.resource(body.resource)
    name, selector = where.one_or_matching(body, "deletes")
    return plan.DeleteObjects(
        body.resource,
        body.namespace,
        name,
        selector,
        _given(body.grace_period_seconds),
        _given(body.propagation_policy),
    )


def _patch(where: _Where, body: steps.Patch) -> Action:
    resource = where.resource(body.resource)
    name, selector = where.one_or_matching(body, "patches")
    if not body.merge:
        raise where.error("merge", "an empty patch changes nothing")
    if body.subresource and resource.subresource(body.subresource) is None:
        raise where.error("subresource", f"{body.resource} have no {body.subresource}")
    merge = translate(body.merge, where.naming)
    assert isinstance(merge, dict)
    if body.subresource in ("", "status"):  # others are of another form
        soundness.check_patch(resource, merge, where.compiler.document, (*where.path, "merge"))
    return plan.PatchObjects(body.resource, body.namespace, name, selector, merge, body.subresource or None)


def _evict(where: _Where, body: steps.Evict) -> Action:
    name, selector = where.one_or_matching(body, "evicts")
    return plan.EvictPods(body.namespace, name, selector)


def _taint(where: _Where, body: steps.Taint) -> Action:
    on = where.path[-1] == "taint"
    if not body.taints:
        raise where.error("taints", "there is none")
    if (problem := taints_problem(body.taints, removed=not on)) is not None:
        place, what, remedy = problem
        raise where.compiler.document.error((*where.path, *place), what, remedy)
    return plan.TaintNodes(where.nodes(body.nodes), tuple(translate(body.taints, where.naming)), on)


def _load(where: _Where, body: steps.Load) -> Action:
    gap_us = where.compiler.rate(body.rate, (*where.path, "rate"))
    if gap_us < LOAD_GAP_MIN_US:
        raise where.error("rate", f"{body.rate} is too much", f"at most {SECOND // LOAD_GAP_MIN_US:,}/s")
    given = [key for key in ("create", "scale", "list_") if getattr(body, key) is not UNSET]
    if len(given) != 1:
        raise where.error("", "a load does one of create, scale and list")
    if body.lifetime is not UNSET and given != ["create"]:
        raise where.error("lifetime", "'lifetime' goes with 'create'")
    if isinstance(body.create, dict):
        manifest = where.compiler.manifest(body.create, (*where.path, "create"), where.naming)
        return plan.Generate(gap_us, create=manifest, lifetime_us=where.maybe(body.lifetime, "lifetime"))
    if isinstance(body.scale, steps.LoadScale):
        inner = _Where(where.compiler, where.known, (*where.path, "scale"), where.naming)
        wanted = body.scale
        _known_object(inner, wanted.resource, wanted.namespace, wanted.name)
        low, high = wanted.between
        if high < low:
            raise inner.error("between", f"the range {low} to {high} ends before it begins")
        return plan.Generate(gap_us, scale=(wanted.resource, wanted.namespace, wanted.name, low, high))
    where.resource(str(body.list_), "list")
    return plan.Generate(gap_us, list_of=str(body.list_))


_PLANNERS: dict[type, Callable[[_Where, Any], Action]] = {
    steps.Fail: _fail,
    steps.Reboot: lambda where, body: plan.FailNodes(where.nodes(body.nodes), "power-loss"),
    steps.Pressure: _pressure,
    steps.Workload: _workload,
    steps.Heal: _heal,
    steps.Manifest: _manifest,
    steps.Partition: _partition,
    steps.Network: _network,
    steps.Crash: lambda where, body: plan.ActorFault(
        "terminate" if body.gracefully else "crash", where.actors(body.actor, "actor")
    ),
    steps.Stall: _actor_fault,
    steps.Slow: lambda where, body: plan.ActorFault(
        "slow", where.actors(body.actor, "actor"), where.positive(body.by, "by")
    ),
    steps.Clock: _clock,
    steps.LoseLease: _lose_lease,
    steps.Storage: lambda where, body: plan.StorageFault(body.how, _by(where, body, "slow")),
    steps.Cloud: _cloud,
    steps.Overload: _overload,
    steps.Lag: lambda where, body: plan.LagCache(
        where.servers(body.api_server), where.positive(body.by, "by")
    ),
    steps.Diverge: lambda where, body: plan.FreezeCache(where.servers(body.api_server)),
    steps.DropWatches: _drop_watches,
    steps.Compact: lambda where, body: plan.CompactHistory(where.duration(body.keep, "keep")),
    steps.Apply: _apply,
    steps.Scale: _scale,
    steps.Delete: _delete,
    steps.Patch: _patch,
    steps.Evict: _evict,
    steps.Cordon: lambda where, body: plan.CordonNodes(where.nodes(body.nodes), where.path[-1] == "cordon"),
    steps.Metric: _metric,
    steps.Taint: _taint,
    steps.Drain: lambda where, body: plan.DrainNodes(
        where.nodes(body.nodes), where.duration(body.timeout, "timeout")
    ),
    steps.Load: _load,
}
