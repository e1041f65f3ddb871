"""A scenario document to a `Plan`, or one error with its place.

Checks everything that is known before the run: fields and types (by the schema), durations, that
node selections match nodes, that named actors, steps and files exist, that a step has exactly one
action.

Holds: the same document gives the same plan; manifests are read only from below the scenario's own
    folder.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec

from sim.api.kinds.common.metadata import labels
from sim.api.schema.scheme import Scheme
from sim.api.selectors import SelectorError, parse_labels
from sim.errors import InputError, suggestion, suggestion_or_all
from sim.ident import NAMES
from sim.options.audit import FILES_READ
from sim.options.base import mapping, raw_option
from sim.options.gates import of_api_server
from sim.scenario.check import references, soundness
from sim.scenario.check.expectation_windows import Windows
from sim.scenario.check.soundness import parts_of
from sim.scenario.plan.context import Known
from sim.scenario.plan.option_files import with_files
from sim.scenario.plan.own_kinds import Planned, kind_remedy
from sim.scenario.plan.plan import (
    AdoptionPlan,
    ClusterPlan,
    ComponentPlan,
    NodePlan,
    Plan,
    PlannedExpectation,
    PlannedStep,
)
from sim.scenario.plan.timeline import plan_timeline
from sim.scenario.read import schema
from sim.scenario.read.naming import translate
from sim.scenario.read.samples import inside, read_samples
from sim.scenario.read.settings import override
from sim.scenario.read.source import Document, read_documents
from sim.scenario.read.steps import Actions
from sim.scenario.read.taints import taints_problem
from sim.units import SECOND, parse_duration_us, quantity_nano

NODES_MAX = 20_000
DURATION_MAX_US = 100 * 365 * 24 * 3600 * SECOND  # years have four digits, times fit into 64 bits
MACHINES_HAVE = ("cpu", "memory", "pods", "ephemeral-storage")
HOMES_MAX = 6  # places of a field in a remedy; more places are no help
_AT = re.compile(r"^(?P<message>.*?)(?: - at `\$(?P<path>.*)`)?$", re.DOTALL)
_UNKNOWN = re.compile(r"^Object contains unknown field `(?P<name>.*)`$")
_MISSING = re.compile(r"^Object missing required field `(?P<name>.*)`$")
_RATE = re.compile(r"^(\d+(?:\.\d+)?)\s*/\s*(\d.*|ms|s|m|h)$")
_TYPE = re.compile(r"`([a-z| ]+)`")
_WORDS = {"str": "text", "int": "a whole number", "float": "a number", "bool": "true or false", "array": "a list",
          "object": "a mapping", "null": "nothing"}  # fmt: skip


def load(path: str | Path, settings: Sequence[str] = ()) -> Plan:
    """Read, override, check and plan one scenario file.  Raises InputError."""
    path = Path(path)
    documents = read_documents(path)
    if len(documents) != 1:
        count = f"holds {len(documents)} documents" if documents else "is empty"
        raise InputError(f"{count}; a scenario is one document", str(path))
    for setting in settings:
        override(documents[0], setting)
    return replace(compile_plan(documents[0], path.parent), settings=tuple(settings))


def compile_plan(document: Document, folder: Path) -> Plan:
    """Plan a document with its manifests below `folder`."""
    return _Compiler(document, folder).plan()


def plan_step(
    step: Mapping[str, Any],
    cluster: ClusterPlan,
    existing: Sequence[tuple[str, str, str]],
    earlier: Mapping[str, str],
) -> PlannedStep:
    """Plan one step that is not from a file, with the checks of a step of a scenario.

    existing: plural, namespace and name of the objects that the step may name
    earlier: the kind of each earlier step, by its name
    Raises InputError without a place.
    """
    spec = {"timeline": [step]}
    head = {"apiVersion": "orrery.dev/v1", "kind": "Scenario", "metadata": {"name": "step"}}
    compiler = _Compiler(Document("", {**head, "spec": spec}), Path())
    known = Known.of(cluster, ())
    known.objects += existing
    known.steps.update(earlier)
    try:
        return plan_timeline(
            compiler, compiler.typed().spec.timeline, known, cluster.naming, DURATION_MAX_US
        )[0]
    except InputError as error:
        raise InputError(error.message, "", error.remedy) from None


class _Compiler:
    def __init__(self, document: Document, folder: Path) -> None:
        self.document = document
        self.folder = folder
        self.planned = Planned()
        self.gates: tuple[str, ...] = ()

    def plan(self) -> Plan:
        scenario = self.typed()
        spec = scenario.spec
        self.gates = _gates(spec.cluster.api_server.flags)
        cluster = self._cluster(spec.cluster)
        made: dict[tuple[str, ...], Mapping[str, Any]] = {}
        for index, entry in enumerate(spec.objects):
            path = ("spec", "objects", index)
            for obj in self._objects(entry, path, cluster.naming):
                # the second would change the first
                if made.setdefault(_identity(obj), obj) is not obj:
                    what = f"{obj['kind']} {obj['metadata']['name']}"
                    raise self.document.error(path, f"{what} is there twice", "give one of them another name")
        objects = [*made.values()]
        duration_us = self.duration(spec.duration, ("spec", "duration"))
        if not duration_us:
            raise self.document.error(("spec", "duration"), "a run takes some time")
        known = Known.of(cluster, objects)
        steps = plan_timeline(self, spec.timeline, known, cluster.naming, duration_us)
        references.check(self.document, steps, objects, known)
        established = spec.cluster.established
        return Plan(
            name=scenario.metadata.name,
            description=scenario.metadata.description,
            seed=spec.seed,
            duration_us=duration_us,
            cluster=replace(cluster, established=tuple(objects)) if established else cluster,
            objects=() if established else tuple(objects),
            steps=steps,
            expectations=self._expectations(spec.expect, steps, duration_us),
            file=self.document.file,
        )

    # --- schema -----------------------------------------------------------------------------------

    def typed(self) -> schema.Scenario:
        """The document by its schema.  Raises InputError."""
        if not isinstance(self.document.value, dict):
            raise self.document.error((), "a scenario is a mapping with apiVersion, kind, metadata and spec")
        try:
            return msgspec.convert(self.document.value, schema.Scenario)
        except msgspec.ValidationError as error:
            raise self._located(str(error)) from None

    def _located(self, text: str) -> InputError:
        found = _AT.match(text)
        assert found is not None
        path = parts_of(found["path"] or "")
        message, remedy = found["message"], ""
        unknown = _UNKNOWN.match(message)
        if unknown:
            owner, name = _struct_at(schema.Scenario, path), unknown["name"]
            known = owner.__struct_encode_fields__ if owner else ()
            elsewhere = "" if name in Actions.__struct_encode_fields__ else _elsewhere(name)
            remedy = suggestion(name, known, elsewhere) or suggestion_or_all(name, known)
            place = self.document.key_place((*path, name))
            raise InputError(f"unknown field {name!r}", place, remedy)
        if message.startswith("Invalid enum value"):
            remedy = _choices(schema.Scenario, path)
        elif message.startswith("Expected `array`, got"):
            remedy = "both bounds, as [29s, 60s]" if path[-1:] == ["within"] else "in brackets, as [a, b]"
        elif message.startswith("Expected `object`, got"):
            remedy = _mapping_at(path)
        elif message.startswith("Expected `str`, got"):
            remedy = _text_at(path, message)
        elif missing := _MISSING.match(message):
            name = missing["name"]
            message = f"the field {name!r} is missing"
            if name == "nodes":
                remedy = "nodes: {} is all of them"
            elif name == "how":
                remedy = _choices(schema.Scenario, [*path, name])
            elif _struct_at(schema.Scenario, path) is schema.Expectation:
                remedy = "a name says what is expected, in any words"
        return self.document.error(tuple(path), _plainly(message), remedy)

    def duration(self, text: str, path: tuple[str | int, ...]) -> int:
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

    def latency(self, text: str | None, path: tuple[str | int, ...]) -> tuple[int, int] | None:
        if text is None:
            return None
        low, dots, high = text.partition("..")
        low_us = self.duration(low, path)
        high_us = self.duration(high, path) if dots else low_us
        if high_us < low_us:
            raise self.document.error(path, f"the range {text} ends before it begins")
        return low_us, high_us

    def rate(self, text: str, path: tuple[str | int, ...]) -> int:
        """Microseconds between things that happen at a rate such as 5/s or 3/10m."""
        found = _RATE.match(text)
        if found is not None:
            unit = found[2] if found[2][0].isdigit() else f"1{found[2]}"
            count, per_us = float(found[1]), self.duration(unit, path)
            if count > 0 and per_us > 0:
                return max(1, round(per_us / count))
        raise self.document.error(path, f"{text!r} is not a rate", "write it as 5/s, 6/h or 3/10m")

    # --- cluster ----------------------------------------------------------------------------------

    def _cluster(self, cluster: schema.Cluster) -> ClusterPlan:
        nodes: list[NodePlan] = []
        seen: set[str] = set()
        processes = {
            f"{process}-{number}"
            for process, part in (
                ("apiserver", cluster.api_server),
                ("controller-manager", cluster.controller_manager),
                ("scheduler", cluster.scheduler),
            )
            for number in range(part.replicas)
        }
        for index, group in enumerate(cluster.nodes):
            path = ("spec", "cluster", "nodes", index)
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
        if len(nodes) > NODES_MAX:
            raise self.document.error(
                ("spec", "cluster", "nodes"), f"{len(nodes)} nodes; at most {NODES_MAX} are run"
            )

        def component(part: schema.Component, key: str) -> ComponentPlan:
            path = ("spec", "cluster", key)
            flags = self._from_folder(part.flags)
            if key == "apiServer":
                flags = with_files(self.document, self.folder, flags, (*path, "flags"))
            return ComponentPlan(part.replicas, flags, *self._flag_places(part.flags, path))

        return ClusterPlan(
            naming=cluster.naming,
            nodes=tuple(nodes),
            api_server=component(cluster.api_server, "apiServer"),
            controller_manager=component(cluster.controller_manager, "controllerManager"),
            scheduler=component(cluster.scheduler, "scheduler"),
            latency_us=self.latency(cluster.latency, ("spec", "cluster", "latency")),
            boot_us=self.duration(cluster.boot, ("spec", "cluster", "boot")),
            metrics=cluster.metrics,
            adoption=self._adoption(cluster.adopt_nodes),
        )

    def _adoption(self, given: schema.AdoptedNodes | None) -> AdoptionPlan | None:
        """The machines of Node objects that come through the API."""
        if given is None:
            return None
        path: tuple[str | int, ...] = ("spec", "cluster", "adoptNodes")
        try:
            parse_labels(given.selector)
        except SelectorError as error:
            raise self.document.error((*path, "selector"), str(error)) from None
        path, profile = (*path, "profile"), given.profile
        self._check_runtime(profile.runtime, path)
        capacity = {key: str(value) for key, value in profile.capacity.items()}
        places = self._flag_places(profile.flags, path)
        return AdoptionPlan(given.selector, capacity, profile.runtime, profile.flags, *places)

    def _group(self, group: schema.NodeGroup, path: tuple[str | int, ...], naming: str) -> Iterable[NodePlan]:
        runtime = group.runtime
        self._check_runtime(runtime, path)
        self._check_group(group, path)
        capacity = {key: str(value) for key, value in group.capacity.items()}
        place, places = self._flag_places(group.flags, path)
        static_pods = self._static_pods(group, (*path, "staticPods"), naming)
        for index in range(group.count):
            zone = group.zones[index % len(group.zones)] if group.zones else ""
            number = index // len(group.zones) if group.zones else index
            name = f"{group.prefix}-{zone}-{number}" if zone else f"{group.prefix}-{number}"
            yield NodePlan(
                name,
                zone,
                group.region,
                capacity,
                translate(group.labels, naming),
                tuple(translate(group.taints, naming)),
                runtime,
                group.flags,
                place,
                places,
                static_pods,
                group.lease_jitter,
            )

    def _check_runtime(self, runtime: schema.Runtime, path: tuple[str | int, ...]) -> None:
        times = {
            "imagePull": runtime.image_pull,
            "start": runtime.start,
            "exitAfter": runtime.exit_after or "0s",
        }
        for key, text in times.items():
            self.duration(text, (*path, "runtime", key))

    def _static_pods(
        self, group: schema.NodeGroup, path: tuple[str | int, ...], naming: str
    ) -> tuple[dict[str, Any], ...]:
        """The static pods of a group, with defaults and checked."""
        found: dict[tuple[str, str], dict[str, Any]] = {}
        for index, value in enumerate(group.static_pods):
            here = (*path, index)
            pod = self.static_pod(value, here, naming)
            key = pod["metadata"]["namespace"], pod["metadata"]["name"]
            if key in found:
                raise self.document.error(here, f"two static pods are named {'/'.join(key)}")
            found[key] = pod
        return tuple(found.values())

    def static_pod(self, value: Any, path: tuple[str | int, ...], naming: str) -> dict[str, Any]:
        """The pod of a manifest that an agent runs by itself.  Raises InputError."""
        if value.get("kind", "Pod") != "Pod":
            raise self.document.error((*path, "kind"), f"no {value['kind']} can be static, only a Pod")
        return self._sound(value, self.document, path, naming)[1]

    def _from_folder(self, flags: Mapping[str, Any]) -> Mapping[str, Any]:
        """The flags, with the files that they read as paths from the scenario's folder."""
        return {
            name: str(self.folder / value)
            if name.removeprefix("--") in FILES_READ and isinstance(value, str) and value
            else value
            for name, value in flags.items()
        }

    def _flag_places(
        self, flags: Mapping[str, Any], path: tuple[str | int, ...]
    ) -> tuple[str, Mapping[str, str]]:
        """The places of the flags of a daemon: of all, and of each."""
        path = (*path, "flags")
        return self.document.place(path), {name: self.document.place((*path, name)) for name in flags}

    def _check_group(self, group: schema.NodeGroup, path: tuple[str | int, ...]) -> None:
        """Check what the API would refuse of the nodes of a group."""
        if "pods" in group.capacity and "max-pods" in group.flags:
            raise self.document.error(
                (*path, "flags", "max-pods"),
                "the group's capacity says how many pods already",
                "leave one out",
            )
        for resource, amount in group.capacity.items():
            if "/" not in resource and not (resource in MACHINES_HAVE or resource.startswith("hugepages-")):
                remedy = (
                    f"they have {', '.join(MACHINES_HAVE)}, and devices with a domain, as example.com/gpu"
                )
                key_place = self.document.key_place((*path, "capacity", resource))
                raise InputError(f"no machine has {resource!r}", key_place, remedy)
            try:
                problem = "" if quantity_nano(str(amount)) >= 0 else "is negative"
            except ValueError:
                problem = "is not a quantity"
            if problem:
                remedy = "write it as 8, 500m or 32Gi"
                raise self.document.error((*path, "capacity", resource), f"{amount!r} {problem}", remedy)
        for error in labels(group.labels, "labels"):
            raise self.document.error((*path, "labels"), f"{error.field}: {error.message}")
        if (wrong := taints_problem(group.taints)) is not None:
            where, what, remedy = wrong
            raise self.document.error((*path, *where), what, remedy)

    # --- objects ----------------------------------------------------------------------------------

    def _objects(
        self, entry: str | Mapping[str, Any], path: tuple[str | int, ...], naming: str
    ) -> list[Mapping[str, Any]]:
        if not isinstance(entry, str):
            return [self._manifest(entry, self.document, path, naming)]
        file = inside(self.document, self.folder, entry, path)
        try:
            documents = read_documents(file, str(self.folder / entry))
        except InputError as error:
            if error.message == "no such file":
                raise self.document.error(
                    path, f"there is no file {entry}", f"looked in {self.folder}"
                ) from None
            if file.is_file():
                raise
            raise self.document.error(path, f"{entry} {error.message}") from None
        return [self._manifest(document.value, document, (), naming) for document in documents]

    def manifest(self, value: Any, path: tuple[str | int, ...], naming: str) -> Mapping[str, Any]:
        """One object written out in the scenario."""
        return self._manifest(value, self.document, path, naming)

    def _manifest(
        self, value: Any, document: Document, path: tuple[str | int, ...], naming: str
    ) -> Mapping[str, Any]:
        return self._sound(value, document, path, naming)[0]

    def _sound(
        self, value: Any, document: Document, path: tuple[str | int, ...], naming: str
    ) -> tuple[Mapping[str, Any], dict[str, Any]]:
        """A manifest in the identifiers of the cluster, and as a new object with its defaults."""
        if not isinstance(value, dict):
            raise document.error(path, "an object is a mapping with apiVersion, kind and metadata")
        for key in ("apiVersion", "kind"):
            if not isinstance(value.get(key), str):
                raise soundness.missing(value, key, key, document, path)
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
        scheme = Scheme(NAMES[naming]).beside(self.planned)
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
            raise document.error(path, str(error)) from None
        if problems:
            raise soundness.unknown_field(resource, problems[0], document, path)
        new = soundness.completed(resource, obj, scheme.names)
        soundness.check(resource, new, scheme.names, document, path, self.gates)
        self.planned.add(scheme, translated)
        return translated, new

    # --- timeline and expectations ----------------------------------------------------------------

    def objects_of(
        self,
        files: Sequence[str],
        objects: Sequence[Mapping[str, Any]],
        path: tuple[str | int, ...],
        naming: str,
    ) -> list[Mapping[str, Any]]:
        """The objects of an `apply` step, those of files first."""
        found: list[Mapping[str, Any]] = []
        for index, file in enumerate(files):
            found += self._objects(file, (*path, "files", index), naming)
        for index, value in enumerate(objects):
            found += self._objects(value, (*path, "objects", index), naming)
        if not found:
            raise self.document.error(path, "applies nothing", "give files or objects")
        return found

    def _expectations(
        self, expectations: Sequence[schema.Expectation], steps: Sequence[PlannedStep], duration_us: int
    ) -> tuple[PlannedExpectation, ...]:
        windows = Windows(self.document, steps, duration_us)
        planned = []
        seen: set[str] = set()
        for index, expectation in enumerate(expectations):
            path = ("spec", "expect", index)
            if expectation.name in seen:
                raise self.document.error((*path, "name"), f"two expectations are named {expectation.name!r}")
            seen.add(expectation.name)
            windows.check(expectation, path)
            over, here = expectation.over, (*path, "over", "like")
            if isinstance(over, dict) and "like" in over:
                like = read_samples(self.document, self.folder, over["like"], here)
                expectation = msgspec.structs.replace(expectation, over={**over, "like": like})
            planned.append(PlannedExpectation(expectation, self.document.place(path)))
        return tuple(planned)


def _gates(flags: Mapping[str, Any]) -> tuple[str, ...]:
    """Feature gates that the flags of the API servers enable; `sim.app.options` reports errors."""
    try:
        return of_api_server(mapping(raw_option(flags, "feature-gates") or ""))
    except ValueError:
        return ()


def _identity(obj: Mapping[str, Any]) -> tuple[str, ...]:
    metadata = obj["metadata"]
    group = str(obj["apiVersion"]).rpartition("/")[0]
    return group, str(obj["kind"]), str(metadata.get("namespace") or "default"), str(metadata["name"])


def _plainly(message: str) -> str:
    """An error of the schema's decoder in the terms of a YAML file."""
    if "matching regex" in message:
        if "x7f" in message:  # of Label, the other being Name
            return "a name holds no control characters"
        return "a name consists of lower-case letters, digits, '-' and '.', and begins and ends with no mark"
    plain = _TYPE.sub(lambda found: " or ".join(_WORDS.get(t, t) for t in found[1].split(" | ")), message)
    return plain[0].lower() + plain[1:]


def _mapping_at(path: Sequence[str | int]) -> str:
    """A remedy at a place that needs a mapping: the fields of the mapping."""
    if path[-2:-1] == ["taints"]:
        return "as {key: k, value: v, effect: NoExecute}"
    owner = _struct_at(schema.Scenario, path)
    return f"it has the fields {', '.join(owner.__struct_encode_fields__)}" if owner else ""


def _text_at(path: Sequence[str | int], message: str) -> str:
    """A remedy at a place that needs a text: how the text is written."""
    if path[-1:] == ["rate"]:
        return "so many in a time, as 2/s or 6/h"
    if path[-1:] == ["selector"]:
        return "as app=web,tier!=db"
    if re.search("got `(int|float|bool)`", message):
        return "a duration has a unit, as 90s or 5m; a text that looks like something else needs quotes"
    return ""


def _struct_at(kind: Any, path: Sequence[str | int]) -> Any:
    """The struct type that a path into a scenario leads to, for suggestions."""
    for part in path:
        if isinstance(part, int):
            continue
        hints = {field.encode_name: field.type for field in msgspec.structs.fields(kind)}
        kind = _inner_struct(hints.get(part))
        if kind is None:
            return None
    return kind


def _elsewhere(name: str) -> str:
    """The remedy for a field that is known at a few other places: the outermost ones."""
    homes = [*dict.fromkeys(_homes(schema.Scenario, name, ()))]
    outermost = [".".join(home) for home in homes if len(home) == min(map(len, homes))]
    return f"it belongs in {' or '.join(outermost)}" if 0 < len(homes) <= HOMES_MAX else ""


def _homes(kind: Any, name: str, path: tuple[str, ...]) -> Iterator[tuple[str, ...]]:
    for field in msgspec.structs.fields(kind):
        if field.encode_name == name:
            yield path
        inner = _inner_struct(field.type)
        if inner is not None:
            yield from _homes(inner, name, (*path, field.encode_name))


def _choices(kind: Any, path: Sequence[str | int]) -> str:
    """The values that are possible at a path into a scenario."""
    owner = _struct_at(kind, path[:-1])
    hints = {field.encode_name: field.type for field in msgspec.structs.fields(owner)} if owner else {}
    return "one of: " + ", ".join(_literals(hints.get(str(path[-1]))))


def _literals(hint: Any) -> Iterable[str]:
    """The literals in a type or in one of its alternatives."""
    for inner in getattr(hint, "__args__", ()):
        if isinstance(inner, str):
            yield inner
        else:
            yield from _literals(inner)


def _inner_struct(hint: Any) -> Any:
    if isinstance(hint, type) and issubclass(hint, msgspec.Struct):
        return hint
    for inner in getattr(hint, "__args__", ()):
        found = _inner_struct(inner)
        if found is not None:
            return found
    return None
