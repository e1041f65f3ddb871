"""What a pod costs in memory, counted object by object.

python -m tests.bench.budget [NODES [PODS]] [--hour]

The pods run from the beginning on, and every process takes them up within two virtual minutes;
--hour: and an idle hour passes. Each object that is reached from the cluster is counted once, for
the attribute of the class of Orrery's by which it is reached in the fewest steps. Bytes are those
that objects have without the allocator's rounding.
"""

from __future__ import annotations

import gc
import sys
from collections import Counter, deque
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from types import BuiltinFunctionType, CodeType, FunctionType, MemberDescriptorType, ModuleType
from typing import Any

import trio

from sim.app.cluster import Cluster
from sim.app.process.garbage import no_collection
from sim.kernel.tasks import ALONE_S
from tests.bench.big import Clock, deployments, planned, sizes, take_up
from tests.bench.timing import machine

LEAST = 8  # bytes a pod of what is printed
OF_THE_PROGRAM = (type, ModuleType, FunctionType, CodeType, BuiltinFunctionType)


def parts(value: Any, label: str) -> Iterator[tuple[Any, str]]:
    """What a value refers to, each with the attribute by which it is reached."""
    kind = type(value)
    if kind.__module__.partition(".")[0] not in ("sim", "actors") or isinstance(value, dict | tuple):
        for part in gc.get_referents(value):
            yield part, label
        return
    held = getattr(value, "__dict__", {})
    if held:
        yield held, f"{kind.__qualname__}"
    for name, part in held.items():
        yield part, f"{kind.__qualname__}.{name}"
    for each in kind.__mro__:
        for name, slot in vars(each).items():
            if isinstance(slot, MemberDescriptorType):  # a property might make something
                with suppress(AttributeError):
                    yield slot.__get__(value), f"{kind.__qualname__}.{name}"


def counted(root: object) -> tuple[Counter[tuple[str, str]], Counter[tuple[str, str]]]:
    """Bytes and objects by attribute and type."""
    size: Counter[tuple[str, str]] = Counter()
    number: Counter[tuple[str, str]] = Counter()
    seen: set[int] = set()
    left = deque([(root, "")])
    while left:
        value, label = left.popleft()
        if id(value) in seen or isinstance(value, OF_THE_PROGRAM):
            continue
        seen.add(id(value))
        if isinstance(value, int) and -5 <= value <= 256:
            continue
        size[label, type(value).__qualname__] += sys.getsizeof(value)
        number[label, type(value).__qualname__] += 1
        left.extend(parts(value, label))
    return size, number


async def measure(nodes: int, pods: int, hour: bool) -> None:
    plan = replace(planned(nodes, ["--established"]), established=deployments(pods))
    with no_collection():
        async with Cluster(plan, seed=1) as cluster:
            cluster.kernel.slice_s = ALONE_S
            clock = Clock(cluster)
            await take_up(cluster, clock, pods)
            if hour:
                await cluster.run_for("1h")
                clock.tell("one hour idle")
            clock.end()
            size, number = counted(cluster)
    print(f"{sum(size.values()) / pods:.0f} bytes in {sum(number.values()) / pods:.1f} objects a pod")
    labels: Counter[str] = Counter()
    for (label, _), octets in size.items():
        labels[label] += octets
    for label, octets in labels.most_common():
        if octets < LEAST * pods:
            break
        kinds = sorted(((-each, kind) for (one, kind), each in size.items() if one == label and each > pods))
        shown = ", ".join(
            f"{kind} {-each / pods:.0f} ({number[label, kind] / pods:.2f})" for each, kind in kinds
        )
        print(f"{octets / pods:7.0f}  {label}: {shown}")


def main() -> None:
    nodes, pods = sizes(sys.argv[1:])
    print(machine())
    trio.run(measure, nodes, pods, "--hour" in sys.argv)


if __name__ == "__main__":
    main()
