"""The static pods of a node agent that runs alone, in a folder or a file of the user's machine.

Turns the content of the folder into what the simulated machine holds in its folder of manifests,
through the gate, since the user writes there at any time.

Holds: nothing is written there; files with names that begin with a dot are hidden; a file that
cannot be read, or that is no pod, holds no pod and is logged once.

Mirrors  kubernetes v1.25 pkg/kubelet/config/{file,common}.go (tryDecodeSinglePod: a pod in YAML or
         JSON, with defaults and checked).
Differs  the folder is looked at each second, where upstream is informed of changes at once.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import trio

from actors.node.node import Node
from actors.node.runtime.machine import Machine
from sim.api.scheme.scheme import Scheme
from sim.api.types import Obj
from sim.errors import InputError
from sim.kernel import Kernel, unheard
from sim.scenario.manifests.soundness import Unsound, check, completed, typed
from sim.scenario.read.option_file import OptionFile

LOOK_S = 1.0
OPERATION = "manifests"
LOG = logging.getLogger(__name__)
Stamp = tuple[int, int, int]  # of a file: inode, size and time of its last change


def begin_manifests(
    nursery: trio.Nursery,
    kernel: Kernel,
    scheme: Scheme,
    path: str,
    machine: Machine,
    nodes: Mapping[str, Node],
) -> None:
    """Put the manifests of a folder, or of one file, on the machine, and follow their changes.

    nodes: the machine's own node, once its agent runs
    """

    def enter(payload: Any, done: Callable[[Any], None]) -> None:
        file, is_there, pod = payload
        done(None)
        node = nodes.get(machine.spec.name)
        if node is None:
            machine.manifests = {**machine.manifests, file: pod}
        elif is_there:
            node.write_manifest(file, pod)
        else:
            node.remove_manifest(file)

    kernel.gate.handle(OPERATION, enter)
    current: dict[str, Stamp] = {}
    folder = Path(path)
    for file, pod in _changes(scheme, folder, current):
        machine.manifests = {**machine.manifests, file: pod}

    async def follow() -> None:
        while True:
            await trio.sleep(LOOK_S)
            for file, pod in _changes(scheme, folder, current):
                kernel.gate.post(OPERATION, [file, file in current, pod], unheard)

    nursery.start_soon(follow)


def _changes(scheme: Scheme, folder: Path, held: dict[str, Stamp]) -> list[tuple[str, Obj | None]]:
    """The files that have come, changed or gone since the last look, each with its pod."""
    result = {file.name: file for file in _files(folder)}
    changes: list[tuple[str, Obj | None]] = []
    for name, file in result.items():
        try:
            status = file.stat()
        except OSError:  # gone since
            continue
        stamp = status.st_ino, status.st_size, status.st_mtime_ns
        if held.get(name) != stamp:
            held[name] = stamp
            changes.append((name, read_manifest(scheme, file)))
    for name in [name for name in held if name not in result]:
        del held[name]
        changes.append((name, None))
    return changes


def _files(folder: Path) -> list[Path]:
    """The files with manifests; none while the folder is not there."""
    try:
        inside = sorted(folder.iterdir()) if folder.is_dir() else [folder]
        return [file for file in inside if file.is_file() and not file.name.startswith(".")]
    except OSError as error:
        LOG.error("unable to read the manifests: %s", error)
        return []


def read_manifest(scheme: Scheme, file: Path) -> Obj | None:
    """The pod in a file, with defaults; None if it holds none, which is logged."""
    try:
        document = OptionFile("", str(file)).document()
        value = document.value
        if not isinstance(value, Mapping) or value.get("kind") != "Pod" or value.get("apiVersion") != "v1":
            raise InputError("is no Pod of v1", str(file))
        resource = scheme.resource("pods")
        obj, unknown = typed(resource, dict(value))
        if unknown:
            raise InputError(unknown[0], str(file))
        if not obj.get("metadata", {}).get("name"):
            raise InputError("the pod has no metadata.name", str(file))
        pod = completed(resource, obj, scheme.names)
        check(resource, pod, scheme.names, document, ())
    except (InputError, Unsound) as error:
        LOG.error("can't process manifest file %s: %s", file, error)
        return None
    return pod
