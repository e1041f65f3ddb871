"""A scenario document to a `Plan`, or all of its errors with their places.

Checks everything that is known before the run: fields and types (by the schema), durations, that
node selections match nodes, that named actors, steps and files exist, that a step has exactly one
action.

Holds: the same document gives the same plan; manifests are read only from below the scenario's own
    folder.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec

from sim.api.scheme.scheme import Scheme
from sim.api.selectors import SelectorError, parse_labels
from sim.api.validation.metadata import labels
from sim.dataclass import dataclass
from sim.errors import InputError, Problems, each_error
from sim.ident import NAMES
from sim.options.base import boolean, mapping, raw_option
from sim.options.features.gates import NO_PRIVILEGED, of_api_server
from sim.options.storage_drivers import StoragePlan
from sim.patterns import pattern
from sim.scenario.actions.taint import taints_problem
from sim.scenario.check import references
from sim.scenario.check.expectation_windows import Windows
from sim.scenario.manifests import soundness
from sim.scenario.manifests.naming import translate
from sim.scenario.plan.arrivals import arrivals_of
from sim.scenario.plan.components import (
    certificate_plan,
    component_plan,
    more_schedulers,
    own_programs,
    process_names,
    proxy_options,
)
from sim.scenario.plan.context import Existing, Known
from sim.scenario.plan.forwards import forward_plans
from sim.scenario.plan.hunting import plan_hunt
from sim.scenario.plan.machines import machine_parts
from sim.scenario.plan.option_files import agent_flags
from sim.scenario.plan.own_kinds import Planned, kind_remedy
from sim.scenario.plan.places import places_of
from sim.scenario.plan.plan import (
    AdoptionPlan,
    ClusterPlan,
    ComponentPlan,
    ForwardPlan,
    NodePlan,
    Plan,
    PlannedExpectation,
    PlannedStep,
    PodNetworkPlan,
)
from sim.scenario.plan.served import as_served, epoch_of
from sim.scenario.plan.storage import storage_plans
from sim.scenario.plan.timeline import TIMES, plan_timeline, possible_names
from sim.scenario.read.foreign import foreign_file
from sim.scenario.read.misfit import misfit
from sim.scenario.read.samples import inside, read_samples
from sim.scenario.read.settings import settled, unwritten, unwritten_step
from sim.scenario.read.source import Document, Path_, read_documents
from sim.scenario.read.variants import variant_settings
from sim.scenario.schema import sections
from sim.scenario.schema.decode import decoded
from sim.units import SECOND, parse_duration_us, quantity_nano

NODES_MAX = 20_000
DURATION_MAX_US = 100 * 365 * 24 * 3600 * SECOND  # years have four digits, times fit into 64 bits
MACHINES_HAVE = ("cpu", "memory", "pods", "ephemeral-storage")
_RATE = pattern(r"^(\d+(?:\.\d+)?)\s*/\s*(\d.*|ms|s|m|h)$")


def load(path: str | Path, settings: Sequence[str] = (), variant: str = "") -> Plan:
    """Read, override, check and plan one scenario file.  Raises InputError with every error."""
    return compile_file(path, settings, variant).sound()


def compile_file(path: str | Path, settings: Sequence[str] = (), variant: str = "") -> Compiled:
    """Read, override and plan one scenario file or a variant of it, as far as it has no errors.
    Raises InputError for a file that holds no scenario.
    """
    path = Path(path)
    documents = read_documents(path)
    if (other := foreign_file([each.value for each in documents])) is not None:
        raise InputError(other.description, str(path), other.remedy(str(path)))
    if len(documents) != 1:
        count = f"holds {len(documents)} documents" if documents else "is empty"
        raise InputError(f"{count}; a scenario is one document", str(path))
    settings = (*variant_settings(documents[0], variant), *settings)
    document = settled(documents[0], settings)
    found = _Compiler(document, path.parent).compiled()
    return replace(found, plan=replace(found.plan, settings=tuple(settings), document=document.value))


def compile_plan(document: Document, folder: Path) -> Plan:
    """Plan a document with its manifests below `folder`.  Raises InputError with every error."""
    return _Compiler(document, folder).compiled().sound()


def plan_of_settings(name: str, settings: Sequence[str]) -> Plan:
    """Plan a cluster of which only settings are known, such as `cluster.nodes[0].count=3`.

    Its run has no end.  Raises InputError with every error.
    """
    document = settled(unwritten(name), settings)
    return replace(compile_plan(document, Path()), duration_us=0, settings=tuple(settings))


def plan_step(
    step: Mapping[str, Any],
    cluster: ClusterPlan,
    existing: Existing,
    earlier: Mapping[str, str],
) -> PlannedStep:
    """Plan one step that is not from a file, with the checks of a step of a scenario.

    existing: lists the objects of a kind that the step may name, besides those of the scenario
    earlier: the kind of each earlier step, by its name
    Raises InputError; its place is the path of the parameter, as "fail.nodes".
    """
    compiler = _Compiler(unwritten_step(step), Path())
    known = Known.of(cluster, ())
    known.existing = existing
    known.steps.update(earlier)
    timeline = compiler.decoded.scenario.spec.timeline
    planned = plan_timeline(compiler, timeline, known, cluster.naming, DURATION_MAX_US)
    problems = Problems()
    for error in compiler.problems.errors:
        problems.add(InputError(error.message, error.place.removeprefix(":1:1"), error.remedy))
    problems.report()
    return planned[0]


@dataclass(frozen=True, slots=True)
class Compiled:
    """A document as a plan, as far as it has no errors.

    errors: in the order of the file
    whole: True if the cluster, the objects and the steps have none
    doubtful: expectations with a wrong value that was replaced, and which the plan leaves out;
        their conditions are as the document has them
    """

    plan: Plan
    errors: tuple[InputError, ...]
    whole: bool
    doubtful: tuple[PlannedExpectation, ...] = ()

    def sound(self) -> Plan:
        """The plan.  Raises InputError with every error."""
        problems = Problems()
        for error in self.errors:
            problems.add(error)
        problems.report()
        return self.plan


class _Compiler:
    def __init__(self, document: Document, folder: Path) -> None:
        self.document = document
        self.folder = folder
        self.problems = Problems()
        self.decoded = decoded(document, self.problems)
        self.planned = Planned()
        self.gates: tuple[str, ...] = ()

    @contextmanager
    def part(self, path: Path_) -> Iterator[None]:
        """A part of the document, of which the errors are collected.

        Where a value in it was wrong by the schema, errors of that value and of what it is in may
        follow from that and are left out.
        """
        try:
            yield
        except InputError as error:
            doubtful = self._doubtful(path)
            for one in each_error(error):
                if one.place not in doubtful:
                    self.problems.add(one)

    def _doubtful(self, path: Path_) -> set[str]:
        """The places of values of a part that were replaced, and of what they are in."""
        replaced = [one for one in self.decoded.mended if one[: len(path)] == path]
        found = {self.document.place(one[:end]) for one in replaced for end in range(len(path), len(one) + 1)}
        return {*found, self.document.place(path)} if self.decoded.touches(path) else found

    def _is_sound(self, path: Path_, errors_before: int) -> bool:
        """True if a part has no error by the schema, and none that was found since."""
        return self.problems.count == errors_before and not self.decoded.touches(path)

    def compiled(self) -> Compiled:
        """Plan the document as far as it has no errors."""
        scenario = self.decoded.scenario
        spec = scenario.spec
        self.gates = _gates(spec.cluster.api_server.flags)
        before = self.problems.count
        cluster = self._cluster(spec.cluster)
        objects = self._all_objects(spec.objects, cluster.naming)
        duration_us = self._run_time(spec.duration)
        known = Known.of(cluster, objects)
        # An unknown field of the scenario may have been meant as any of its parts.
        astray = any(len(path) <= 2 for path in self.decoded.mended)
        known.sure = not astray and all(
            self._is_sound(("spec", part), before) for part in ("cluster", "objects")
        )
        before = self.problems.count
        steps = plan_timeline(self, spec.timeline, known, cluster.naming, duration_us)
        whole = known.sure and self._is_sound(("spec", "timeline"), before)
        with self.problems.part():
            references.check(self.document, steps, objects, known, whole)
        established = spec.cluster.established
        planned = tuple(steps.values())
        expectations, doubtful = self._expectations(spec.expect, planned, duration_us, whole)
        plan = Plan(
            name=scenario.metadata.name,
            description=scenario.metadata.description,
            seed=spec.seed,
            duration_us=duration_us,
            cluster=replace(cluster, established=tuple(objects)) if established else cluster,
            objects=() if established else tuple(objects),
            steps=planned,
            expectations=expectations,
            file=self.document.file,
            variants=tuple(spec.variants),
            hunt=plan_hunt(self, spec.hunt, known, objects, duration_us),
        )
        return Compiled(plan, tuple(in_order(self.problems.errors, self.document.file)), whole, doubtful)

    def _run_time(self, text: str) -> int:
        """The duration of the run; the longest one if it has an error, so that nothing is too late."""
        path: Path_ = ("spec", "duration")
        duration_us = 0
        with self.part(path):
            duration_us = self.duration(text, path)
            if not duration_us:
                raise self.document.error(path, "a run takes some time")
        return DURATION_MAX_US if not duration_us or self.decoded.touches(path) else duration_us

    def _all_objects(
        self, entries: Sequence[str | Mapping[str, Any]], naming: str
    ) -> list[Mapping[str, Any]]:
        """The objects of all entries that have no errors."""
        made: dict[tuple[str, ...], Mapping[str, Any]] = {}
        for index, entry in enumerate(entries):
            path: Path_ = ("spec", "objects", index)
            if path in self.decoded.mended:
                continue
            with self.part(path):
                for obj in self._objects(entry, path, naming):
                    # the second would change the first
                    if made.setdefault(_identity(obj), obj) is not obj:
                        what = f"{obj['kind']} {obj['metadata']['name']}"
                        raise self.document.error(
                            path, f"{what} is there twice", "give one of them another name"
                        )
        return [*made.values()]

    def duration(self, text: str, path: Path_) -> int:
        try:
            value = parse_duration_us(text)
        except ValueError:
            raise self.document.error(
                path, f"{text!r} is not a duration", "write it as 90s, 5m or 1h30m, a hundred years at most"
            ) from None
        if value < 0:
            raise self.document.error(path, f"the duration {text} is negative")
        if value > DURATION_MAX_US:
            raise self.document.error(path, f"the duration {text} is longer than a hundred years")
        return value

    def latency(self, text: str | None, path: Path_) -> tuple[int, int] | None:
        if text is None:
            return None
        low, dots, high = text.partition("..")
        low_us = self.duration(low, path)
        high_us = self.duration(high, path) if dots else low_us
        if high_us < low_us:
            raise self.document.error(path, f"the range {text} ends before it begins")
        return low_us, high_us

    def rate(self, text: str, path: Path_) -> int:
        """Microseconds between things that happen at a rate such as 5/s or 3/10m."""
        found = _RATE.match(text)
        if found is not None:
            unit = found[2] if found[2][0].isdigit() else f"1{found[2]}"
            count, per_us = float(found[1]), self.duration(unit, path)
            if count > 0 and per_us > 0:
                return max(1, round(per_us / count))
        raise self.document.error(path, f"{text!r} is not a rate", "write it as 5/s, 6/h or 3/10m")

    # --- cluster ----------------------------------------------------------------------------------

    def _cluster(self, cluster: sections.Cluster) -> ClusterPlan:
        nodes: list[NodePlan] = []
        seen: set[str] = set()
        processes = process_names(cluster)
        for index, group in enumerate(cluster.nodes):
            path = ("spec", "cluster", "nodes", index)
            with self.part(path):
                for node in self._group(group, path, cluster.naming):
                    if node.name in seen:
                        raise self.document.error(
                            path, f"two nodes are named {node.name}", "give the group a prefix"
                        )
                    if node.name in processes:
                        remedy = "give the group another prefix"
                        raise self.document.error(path, f"{node.name} is the name of a process", remedy)
                    seen.add(node.name)
                    nodes.append(node)
        with self.problems.part():
            if len(nodes) > NODES_MAX:
                raise self.document.error(
                    ("spec", "cluster", "nodes"), f"{len(nodes)} nodes; at most {NODES_MAX} are run"
                )

        def component(part: sections.Component | sections.Daemon, key: str) -> ComponentPlan:
            return component_plan(self.document, self.folder, self.problems, part, NAMES[cluster.naming], key)

        latency_us, boot_us = None, 0
        with self.part(("spec", "cluster", "latency")):
            latency_us = self.latency(cluster.latency, ("spec", "cluster", "latency"))
        with self.part(("spec", "cluster", "boot")):
            boot_us = self.duration(cluster.boot, ("spec", "cluster", "boot"))
        servers: Mapping[str, ForwardPlan] = {}
        with self.part(("spec", "cluster", "programs")):
            servers = forward_plans(self.document, ("spec", "cluster", "programs"), cluster.programs)
        plan = ClusterPlan(
            naming=cluster.naming,
            nodes=tuple(nodes),
            api_server=component(cluster.api_server, "apiServer"),
            controller_manager=component(cluster.controller_manager, "controllerManager"),
            scheduler=component(cluster.scheduler, "scheduler"),
            schedulers=more_schedulers(
                self.document, self.folder, self.problems, cluster, ("storage", "nodes", *processes, *seen)
            ),
            latency_us=latency_us,
            arrivals=arrivals_of(self, cluster, seen | processes),
            boot_us=boot_us,
            metrics=cluster.metrics,
            places=places_of(self, cluster, seen),
            adoption=self._adoption(cluster.adopt_nodes, cluster.naming),
            storage=self._storage(cluster, nodes),
            pods=PodNetworkPlan(servers, cluster.network_policies == "enforced"),
            own_programs=own_programs(self, cluster, seen | processes),
            epoch_us=epoch_of(self, cluster.epoch),
            certificates=certificate_plan(self, cluster.certificates),
            kube_proxy=proxy_options(self, cluster.kube_proxy),
        )
        return as_served(plan) if cluster.served else plan

    def _storage(self, cluster: sections.Cluster, nodes: Sequence[NodePlan]) -> tuple[StoragePlan, ...]:
        """The storage drivers, as far as they have no errors."""
        path: Path_ = ("spec", "cluster", "storage")
        zones = [*dict.fromkeys(node.zone for node in nodes if node.zone)]
        found: list[StoragePlan] = []
        with self.part(path):
            found += storage_plans(self.document, path, cluster.storage, zones, NAMES[cluster.naming])
        return tuple(found)

    def _adoption(self, given: sections.AdoptedNodes | None, naming: str) -> AdoptionPlan | None:
        """The machines of Node objects that come through the API."""
        if given is None:
            return None
        path: Path_ = ("spec", "cluster", "adoptNodes")
        try:
            parse_labels(given.selector)
        except SelectorError as error:
            raise self.document.error((*path, "selector"), str(error)) from None
        path, profile = (*path, "profile"), given.profile
        self._check_runtime(profile.runtime, path)
        capacity = {key: str(value) for key, value in profile.capacity.items()}
        flags = agent_flags(self.document, self.folder, profile.flags, (*path, "flags"), NAMES[naming])
        return AdoptionPlan(given.selector, capacity, profile.runtime, *flags)

    def _group(self, group: sections.NodeGroup, path: Path_, naming: str) -> Iterable[NodePlan]:
        runtime = group.runtime
        problems = Problems()
        with problems.part():
            self._check_runtime(runtime, path)
        with problems.part():
            self._check_group(group, path)
        with problems.part():
            static_pods = self._static_pods(group, (*path, "staticPods"), naming)
        problems.report()
        capacity = {key: str(value) for key, value in group.capacity.items()}
        flags = agent_flags(self.document, self.folder, group.flags, (*path, "flags"), NAMES[naming])
        topology, devices, swap_bytes = machine_parts(self.document, self.duration, group, capacity, path)
        override = self._override(group, path)
        for index in range(group.count):
            zone = group.zones[index % len(group.zones)] if group.zones else ""
            number = index // len(group.zones) if group.zones else index
            name = f"{group.prefix}-{zone}-{number}" if zone else f"{group.prefix}-{number}"
            name = override or (group.names[index] if group.names else name)
            yield NodePlan(
                name,
                zone,
                group.region,
                capacity,
                translate(group.labels, naming),
                tuple(translate(group.taints, naming)),
                runtime,
                *flags,
                static_pods,
                group.lease_jitter,
                topology=topology,
                devices=devices,
                swap_bytes=swap_bytes,
                sysctls=group.sysctls,
            )

    def _override(self, group: sections.NodeGroup, path: Path_) -> str:
        """The name that an option gives the only node of a group; "" for none."""
        given = raw_option(group.flags, "hostname-override")
        if not isinstance(given, str) or not given.strip():
            return ""
        if group.count != 1:
            here = (*path, "flags", "hostname-override")
            remedy = "give it to a group of one, or use names"
            raise self.document.error(here, f"{group.count} nodes cannot have one name", remedy)
        return given.strip().lower()

    def _check_runtime(self, runtime: sections.Runtime, path: Path_) -> None:
        times = {
            "imagePull": runtime.image_pull,
            "start": runtime.start,
            "exitAfter": runtime.exit_after or "0s",
        }
        problems = Problems()
        for key, text in times.items():
            with problems.part():
                self.duration(text, (*path, "runtime", key))
        problems.report()

    def _static_pods(self, group: sections.NodeGroup, path: Path_, naming: str) -> tuple[dict[str, Any], ...]:
        """The static pods of a group, with defaults and checked."""
        found: dict[tuple[str, str], dict[str, Any]] = {}
        problems = Problems()
        for index, value in enumerate(group.static_pods):
            here = (*path, index)
            with problems.part():
                pod = self.static_pod(value, here, naming)
                key = pod["metadata"]["namespace"], pod["metadata"]["name"]
                if key in found:
                    raise self.document.error(here, f"two static pods are named {'/'.join(key)}")
                found[key] = pod
        problems.report()
        return tuple(found.values())

    def static_pod(self, value: Any, path: Path_, naming: str) -> dict[str, Any]:
        """The pod of a manifest that an agent runs by itself.  Raises InputError."""
        if value.get("kind", "Pod") != "Pod":
            raise self.document.error((*path, "kind"), f"no {value['kind']} can be static, only a Pod")
        return self._sound(value, self.document, path, naming)[1]

    def _check_group(self, group: sections.NodeGroup, path: Path_) -> None:
        """Check what the API would refuse of the nodes of a group."""
        problems, error = Problems(), self.document.error
        if group.names and len(group.names) != group.count:
            what = f"{len(group.names)} names for {group.count} nodes"
            problems.add(error((*path, "names"), what, "give each node a name, or none of them"))
        if "pods" in group.capacity and "max-pods" in group.flags:
            what = "the group's capacity says how many pods already"
            problems.add(error((*path, "flags", "max-pods"), what, "leave one out"))
        for resource, amount in group.capacity.items():
            with problems.part():
                self._check_capacity(resource, amount, (*path, "capacity", resource))
        for wrong in labels(group.labels, "labels"):
            problems.add(error((*path, "labels"), f"{wrong.field}: {wrong.message}"))
        if (tainted := taints_problem(group.taints)) is not None:
            where, what, remedy = tainted
            problems.add(error((*path, *where), what, remedy))
        problems.report()

    def _check_capacity(self, resource: str, amount: Any, path: Path_) -> None:
        """Check one amount of the capacity of a group."""
        if "/" not in resource and not (resource in MACHINES_HAVE or resource.startswith("hugepages-")):
            remedy = f"they have {', '.join(MACHINES_HAVE)}, and devices with a domain, as example.com/gpu"
            raise InputError(f"no machine has {resource!r}", self.document.key_place(path), remedy)
        try:
            problem = "" if quantity_nano(str(amount)) >= 0 else "is negative"
        except ValueError:
            problem = "is not a quantity"
        if problem:
            raise self.document.error(path, f"{amount!r} {problem}", "write it as 8, 500m or 32Gi")

    # --- objects ----------------------------------------------------------------------------------

    def _objects(self, entry: str | Mapping[str, Any], path: Path_, naming: str) -> list[Mapping[str, Any]]:
        if not isinstance(entry, str):
            return [self._manifest(entry, self.document, path, naming)]
        file = inside(self.document, self.folder, entry, path)
        problems, found = Problems(), list[Mapping[str, Any]]()
        for document in read_documents(file, str(self.folder / entry), self.document.place(path)):
            with problems.part():
                found.append(self._manifest(document.value, document, (), naming))
        problems.report()
        return found

    def manifest(self, value: Any, path: Path_, naming: str) -> Mapping[str, Any]:
        """One object written out in the scenario."""
        return self._manifest(value, self.document, path, naming)

    def _manifest(self, value: Any, document: Document, path: Path_, naming: str) -> Mapping[str, Any]:
        return self._sound(value, document, path, naming)[0]

    def _sound(
        self, value: Any, document: Document, path: Path_, naming: str
    ) -> tuple[Mapping[str, Any], dict[str, Any]]:
        """A manifest in the identifiers of the cluster, and as a new object with its defaults."""
        if not isinstance(value, dict):
            raise document.error(path, "an object is a mapping with apiVersion, kind and metadata")
        incomplete = Problems()
        for key in ("apiVersion", "kind"):
            if not isinstance(value.get(key), str):
                incomplete.add(soundness.missing(value, key, key, document, path))
        incomplete.report()
        if value["kind"] == "List":
            remedy = "write its items as objects of their own, in a file parted by ---"
            raise document.error((*path, "kind"), "a List is no object", remedy)
        metadata = value.get("metadata")
        if not isinstance(metadata, dict):
            raise soundness.missing(value, "metadata", "metadata.name", document, path)
        if not isinstance(metadata.get("name"), str):
            raise soundness.missing(metadata, "name", "metadata.name", document, (*path, "metadata"))
        translated = translate(value, naming)
        assert isinstance(translated, dict)
        scheme = Scheme(NAMES[naming], frozenset()).beside(self.planned)
        resource = scheme.by_kind(translated["apiVersion"], translated["kind"])
        if resource is None:
            raise document.error(
                (*path, "kind"),
                f"there is no kind {value['kind']} in {value['apiVersion']}",
                kind_remedy(scheme, value["kind"]),
            )
        try:
            obj, problems = soundness.typed(resource, translated)
        except soundness.Unsound as error:
            raise document.error((*path, *misfit(translated, str(error))), str(error)) from None
        found = Problems()
        with found.part():
            soundness.check_unknown(resource, problems, document, path)
        new = soundness.completed(resource, obj, scheme.names)
        with found.part():
            soundness.check(resource, new, scheme.names, document, path, self.gates)
        found.report()
        self.planned.add(scheme, translated)
        return translated, new

    # --- timeline and expectations ----------------------------------------------------------------

    def objects_of(
        self,
        files: Sequence[str],
        objects: Sequence[Mapping[str, Any]],
        path: Path_,
        naming: str,
    ) -> list[Mapping[str, Any]]:
        """The objects of an `apply` step, those of files first."""
        found: list[Mapping[str, Any]] = []
        problems = Problems()
        for index, file in enumerate(files):
            with problems.part():
                found += self._objects(file, (*path, "files", index), naming)
        for index, value in enumerate(objects):
            with problems.part():
                found += self._objects(value, (*path, "objects", index), naming)
        problems.report()
        if not found:
            raise self.document.error(path, "applies nothing", "give files or objects")
        return found

    def _expectations(
        self,
        expectations: Sequence[sections.Expectation],
        steps: Sequence[PlannedStep],
        duration_us: int,
        whole: bool,
    ) -> tuple[tuple[PlannedExpectation, ...], tuple[PlannedExpectation, ...]]:
        """The expectations that can be checked further, and those of which only conditions can be.

        whole: True if every step is planned
        """
        windows = Windows(self.document, steps, duration_us, whole, self._possible_steps())
        planned: list[PlannedExpectation] = []
        doubtful: list[PlannedExpectation] = []
        seen: set[str] = set()
        for index, expectation in enumerate(expectations):
            path = ("spec", "expect", index)
            with self.part(path):
                if expectation.name in seen:
                    what = f"two expectations are named {expectation.name!r}"
                    raise self.document.error((*path, "name"), what)
            seen.add(expectation.name)
            with self.part(path):
                windows.check(expectation, path)
            with self.part(path):
                found = self._with_samples(expectation, path)
                touched = self.decoded.touches(path)
                (doubtful if touched else planned).append(
                    PlannedExpectation(found, self.document.place(path))
                )
        return tuple(planned), tuple(doubtful)

    def _possible_steps(self) -> frozenset[str] | None:
        """Names and kinds of all steps of the document, with those that have errors; None if a
        wrong field may have been meant as any of these.
        """
        timeline: Path_ = ("spec", "timeline")
        for path in self.decoded.mended:
            above = path == timeline[: len(path)]
            if above or (
                path[:2] == timeline and (len(path) == 3 or (len(path) == 4 and path[3] not in TIMES))
            ):
                return None
        return frozenset(possible_names(self.decoded.scenario.spec.timeline))

    def _with_samples(self, expectation: sections.Expectation, path: Path_) -> sections.Expectation:
        """An expectation with the recorded values that it is compared with, if any."""
        over = expectation.over
        if not (isinstance(over, dict) and "like" in over):
            return expectation
        like = read_samples(self.document, self.folder, over["like"], (*path, "over", "like"))
        return msgspec.structs.replace(expectation, over={**over, "like": like})


def in_order(errors: Sequence[InputError], file: str) -> list[InputError]:
    """Errors in the order of their places in a file; those from elsewhere come after them."""

    def key(error: InputError) -> tuple[bool, int, int]:
        line, _, column = error.place.removeprefix(f"{file}:").partition(":")
        here = error.place.startswith(f"{file}:") and line.isdecimal() and column.isdecimal()
        return (False, int(line), int(column)) if here else (True, 0, 0)

    return sorted(errors, key=key)


def _gates(flags: Mapping[str, Any]) -> tuple[str, ...]:
    """What the flags of the API servers change about rules; `sim.app.options` reports errors."""
    try:
        gates = of_api_server(mapping(raw_option(flags, "feature-gates") or ""))
        privileged = boolean(True if (given := raw_option(flags, "allow-privileged")) is None else given)
    except (KeyError, ValueError):
        return ()
    return gates if privileged else (*gates, NO_PRIVILEGED)


def _identity(obj: Mapping[str, Any]) -> tuple[str, ...]:
    metadata = obj["metadata"]
    group = str(obj["apiVersion"]).rpartition("/")[0]
    return group, str(obj["kind"]), str(metadata.get("namespace") or "default"), str(metadata["name"])
