"""How a program answers a probe: commands that are run in its container, and ports that it opens.

Turns a probe, its container and its pod into the answer over the container's age, or into None if
the answer is that of the container's behaviour.

Holds: an unknown program may do anything, so a probe of it gets no answer here; a file that a script
    neither creates nor removes exists, unless it is in a folder that starts empty (`/tmp`).

Mirrors  pkg/kubelet/prober/prober.go: runProbe; pkg/probe/{exec,http,tcp}: results and their texts
         (v1.25).
Differs  of a command only `sleep` takes time in a container without simulated programs; files that
         a volume brings exist; a container that declares no port and runs an unknown program listens
         on every port.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from actors.node.runtime.commands import AT_ONCE_US, commanded, fetches, steps_of
from actors.node.runtime.programs import image_entry, words_of
from actors.node.runtime.shell_scripts import program_of, script_of
from sim.api.memo import IdentityMemo
from sim.api.types import Obj
from sim.kernel.pace import NEVER_US
from sim.options.features.gates import GRPC_PROBES, enabled

READERS = ("cat", "head", "ls", "stat", "test", "[")
EMPTY_FOLDERS = ("/tmp/", "/var/run/", "/run/")
MISSING = {True: "{program}: can't open '{path}': No such file or directory\n",
           False: "{program}: {path}: No such file or directory\n"}  # fmt: skip


class Answer(NamedTuple):
    """The answer to a probe.

    spans: (age in microseconds, True if the probe succeeds from then on), in order of their age
    output: what a probe that fails shows; `{ip}` in it stands for the pod's address
    error: that of a probe that no handler carries out, which counts neither way; else empty
    took_us: how long its command takes
    """

    spans: tuple[tuple[int, bool], ...]
    output: str
    error: str = ""
    took_us: int = 0

    def succeeds(self, age_us: int) -> bool:
        """The answer at an age of the container."""
        found = True
        for from_us, succeeds in self.spans:
            if from_us <= age_us:
                found = succeeds
        return found

    def next_change_us(self, age_us: int) -> int | None:
        """The age at which the answer changes next; None if it does not."""
        now = self.succeeds(age_us)
        return next((at for at, succeeds in self.spans if at > age_us and succeeds is not now), None)


# Pods of a template share their containers, so they share the answers to their probes.
_ANSWERS: IdentityMemo[Mapping[tuple[str, str], Answer | None]] = IdentityMemo()
_KEYS = {"Startup": "startupProbe", "Readiness": "readinessProbe", "Liveness": "livenessProbe"}


def answer_of(spec: Obj, kind: str, name: str) -> Answer | None:
    """How a container of a pod answers one of its probes; None if its behaviour says so."""
    containers = spec["containers"]
    known = _ANSWERS.get(containers, spec.get("hostNetwork"))
    if known is None:
        found = {
            (probe_kind, container["name"]): _answer(spec, container, container[key])
            for container in containers
            for probe_kind, key in _KEYS.items()
            if container.get(key)
        }
        known = _ANSWERS.put(found, containers, spec.get("hostNetwork"))
    return known.get((kind, name))


def gated_answer(pod: Obj, kind: str, container: str, probe: Obj, gates: Mapping[str, str]) -> Answer | None:
    """How a container of a pod answers a probe, with the feature gates of its agent."""
    if "grpc" in probe and not enabled(gates, GRPC_PROBES):
        metadata = pod["metadata"]
        about = f"{metadata['name']}_{metadata['namespace']}({metadata['uid']})"
        return Answer((), "", f"missing probe handler for {about}:{container}")
    return answer_of(pod["spec"], kind, container)


def too_late(probe: Obj, container: Obj) -> str:
    """What a probe shows that has got no answer in its time; `{ip}` stands for the pod's address."""
    if "exec" in probe:
        return f'command "{" ".join(probe["exec"].get("command") or ())}" timed out'
    limit = f"{probe.get('timeoutSeconds') or 1}s"
    if "grpc" in probe:
        return f"timeout: health rpc did not complete within {limit}"
    given = probe["httpGet"]
    scheme, path = str(given.get("scheme") or "HTTP").lower(), str(given.get("path") or "/")
    host, port = given.get("host") or "{ip}", port_of(container, given.get("port"))
    path = path if path.startswith("/") else f"/{path}"
    ended = "context deadline exceeded (Client.Timeout exceeded while awaiting headers)"
    return f'Get "{scheme}://{host}:{port}{path}": {ended}'


def _answer(spec: Obj, container: Obj, probe: Obj) -> Answer | None:
    if "exec" in probe:
        return _executed(container, list(probe["exec"].get("command") or ()))
    for handler in ("httpGet", "tcpSocket", "grpc"):
        if handler in probe:
            port = port_of(container, probe[handler].get("port"))
            if port is None or probe[handler].get("host") or _may_listen(spec, port):
                return None
            return Answer(((0, False),), _refused(handler, probe, port))
    return None


# --- commands -------------------------------------------------------------------------------------


def _executed(container: Obj, words: Sequence[str]) -> Answer | None:
    """The answer of a command that is run in the container."""
    reader = _read_path(words)
    if reader is not None:
        spans = _existence(container, reader)
        if spans is None:
            return None
        program = program_of(words)
        is_silent = program in ("test", "[")
        busybox = bool((image_entry(container.get("image") or "") or {}).get("busybox"))
        text = "" if is_silent else MISSING[busybox].format(program=program, path=reader)
        return Answer(spans, text)
    took = commanded({"command": list(words)}, unknown_ends=True)
    took_us = 0 if took is None else int(took.get("exit_after_us", NEVER_US))
    took_us = 0 if took_us <= AT_ONCE_US else took_us
    known = None if fetches(words) else commanded({"command": list(words)})
    if known is None:
        return Answer(((0, True),), "", took_us=took_us) if took_us else None
    log = known.get("log")
    return Answer(((0, not known.get("exit_code")),), f"{log}\n" if log else "", took_us=took_us)


def _read_path(words: Sequence[str]) -> str | None:
    """The path of the only file that a command reads; None for any other command."""
    line = script_of(words)
    if line is not None:
        inner = line.split()
        return None if set(line) & set(";&|<>$`'\"\n") else _read_path(inner)
    if program_of(words) not in READERS:
        return None
    if program_of(words) in ("test", "["):
        inner = [word for word in words[1:] if word != "]"]
        is_file_test = len(inner) == len(("-f", "PATH")) and inner[0] in ("-e", "-f", "-s", "-r")
        return inner[1] if is_file_test and inner[1].startswith("/") else None
    paths = [word for word in words[1:] if not word.startswith("-")]
    return paths[0] if len(paths) == 1 and paths[0].startswith("/") else None


def _existence(container: Obj, path: str) -> tuple[tuple[int, bool], ...] | None:
    """When a file exists, by the container's age; None if only an unknown program knows."""
    for mount in container.get("volumeMounts") or ():
        if path.startswith(f"{mount['mountPath'].rstrip('/')}/"):
            return None
    words = words_of(container)
    line = script_of(words)
    if line is None:
        if commanded(container) is None:
            return None
        line = ""
    changes: list[tuple[int, bool]] = []
    try:
        for step in steps_of(line, {"exit_after_us": NEVER_US} if line else None):
            program, arguments = program_of(step.command.words), step.command.words[1:]
            if step.command.target == path or (program == "touch" and path in arguments):
                changes.append((step.at_us, True))
            elif program == "rm" and path in arguments:
                changes.append((step.at_us, False))
            elif step.duration_us >= NEVER_US and commanded({"command": step.command.words}) is None:
                return None  # an unknown program may create it
    except ValueError:
        return None
    is_made = bool(changes) and changes[0][1]
    return ((0, not is_made and not path.startswith(EMPTY_FOLDERS)), *changes)


# --- ports ----------------------------------------------------------------------------------------


def port_of(container: Obj, port: Any) -> int | None:
    """The number of a probe's port; None for a name that the container does not declare."""
    if isinstance(port, int):
        return port
    named = [p["containerPort"] for p in container.get("ports") or () if p.get("name") == port]
    return named[0] if named else int(port) if isinstance(port, str) and port.isdecimal() else None


def _may_listen(spec: Obj, port: int) -> bool:
    """True if a program of the pod may listen on the port."""
    if spec.get("hostNetwork"):
        return True  # so may any program of the node
    return any(opens(container, port) for container in spec["containers"])


def opens(container: Obj, port: int) -> bool:
    """True if a program of the container may listen on the port."""
    if declares(container, port):
        return True
    return not container.get("ports") and not _image_ports(container) and commanded(container) is None


def declares(container: Obj, port: int) -> bool:
    """True if the container or its known image states that it listens on the port."""
    declared = [p["containerPort"] for p in container.get("ports") or ()]
    return port in declared or port in _image_ports(container)


def _image_ports(container: Obj) -> Sequence[int]:
    entry = None if container.get("command") else image_entry(container.get("image") or "")
    return (entry or {}).get("ports") or ()


def _refused(handler: str, probe: Obj, port: int) -> str:
    """The text of a connection that is refused; `{ip}` stands for the pod's address."""
    dial, given = f"dial tcp {{ip}}:{port}: connect: connection refused", probe[handler]
    if handler == "httpGet":
        scheme = str(given.get("scheme") or "HTTP").lower()
        path = str(given.get("path") or "/")
        path = path if path.startswith("/") else f"/{path}"
        return f'Get "{scheme}://{{ip}}:{port}{path}": {dial}'
    if handler == "grpc":
        limit = f"{probe.get('timeoutSeconds') or 1}s"
        return f'timeout: failed to connect service "{{ip}}:{port}" within {limit}: context deadline exceeded'
    return dial
