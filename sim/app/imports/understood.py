"""What the simulated programs of imported pods cannot do, found without a run."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from actors.node.runtime.interpreter import interpreter
from actors.node.runtime.programs import words_of
from sim.api.types import Obj

_KINDS = ("initContainers", "containers", "ephemeralContainers")
_CALLS = (
    ("livenessProbe", ()), ("readinessProbe", ()), ("startupProbe", ()), ("lifecycle", ("postStart",)),
    ("lifecycle", ("preStop",)),
)  # fmt: skip


def not_understood(objects: Sequence[Obj]) -> list[str]:
    """Sentences about programs that are not known, each with the containers that need them."""
    found: dict[str, list[str]] = {}
    for obj in objects:
        where = f"{obj['kind']} {obj['metadata'].get('name', '')}"
        for container in _containers(obj.get("spec") or {}):
            for text in _problems(container):
                found.setdefault(text, []).append(f"container {container.get('name')} of {where}")
    return [f"{text}: {', '.join(places)}" for text, places in found.items()]


def _containers(spec: Obj) -> Iterator[Obj]:
    """The containers of a pod, or of the template in a workload."""
    if isinstance(spec.get("containers"), list):
        for kind in _KINDS:
            yield from spec.get(kind) or ()
        return
    for key in ("template", "jobTemplate"):
        inner = spec.get(key)
        if isinstance(inner, Mapping):
            yield from _containers(inner.get("spec") or {})


def _problems(container: Obj) -> Iterator[str]:
    known = interpreter()
    if known is None:
        return
    words = words_of(container)
    runs = known.runs(container)
    if container.get("command") or runs:
        for text in known.lacks(words):
            yield text if runs else f"{text}, so that the container runs without doing anything"
    for key, path in _CALLS:
        call = container.get(key) or {}
        for part in path:
            call = call.get(part) or {}
        yield from known.lacks((call.get("exec") or {}).get("command") or ())
