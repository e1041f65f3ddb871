"""The static policy of the memory manager: memory and huge pages of NUMA nodes for containers.
Pure.

Turns a container of a Guaranteed pod into blocks of memory on as few NUMA nodes as can serve it.
NUMA nodes that have served one container together serve others only together.

Mirrors  pkg/kubelet/cm/memorymanager: policy_static.go, memory_manager.go (v1.25).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from actors.node.resources.hints import Hint, Hints, is_narrower, masks_of
from actors.node.resources.refusals import Unallocatable
from actors.node.resources.requests import Request, containers_of, is_guaranteed, is_init, memory_of, of_pod
from actors.node.resources.state import Allocations, Block, NumaState, Table
from actors.node.resources.topology import Topology, bits_of
from sim.api.types import Obj

PREFIX = "[memorymanager] "
Reserved = Mapping[int, Mapping[str, int]]  # NUMA node -> resource -> bytes


class _Totals(NamedTuple):
    """Bytes of some NUMA nodes together, by resource."""

    free: Mapping[str, int]
    allocatable: Mapping[str, int]


class MemoryPolicy:
    """Decides for one machine.

    _reusable: of the pod that is being admitted: (set of NUMA nodes, resource) -> what its init
        containers have
    """

    def __init__(
        self, topology: Topology, reserved: Reserved, state: Allocations, affinity: Callable[[str, str], Hint]
    ) -> None:
        self._state = state
        self._affinity = affinity
        self._reusable: tuple[str, dict[tuple[int, str], int]] = ("", {})
        if not state.numa:
            state.numa = [
                _empty(number, amounts, reserved.get(number, {}))
                for number, amounts in enumerate(topology.memory)
            ]

    # --- allocation -------------------------------------------------------------------------------

    def allocate(self, pod: Obj, container: Obj) -> None:
        """Give a container of a Guaranteed pod its memory.  Raises Unallocatable."""
        if not is_guaranteed(pod):
            return
        uid, name = pod["metadata"]["uid"], container["name"]
        blocks = self._blocks(uid, name)
        if blocks is None:
            requests = memory_of(container)
            nodes = self._nodes_for(pod, requests, self._affinity(uid, name))
            blocks = []
            for resource, size in requests.items():
                blocks.append(Block(nodes, resource, size))
                self._reserve(nodes, resource, max(0, size - self._reusable_of(uid, nodes, resource)))
            self._reuse(pod, name, blocks)
            self._state.memory.setdefault(uid, {})[name] = blocks
            self._shrink_init(pod, name, blocks)
        else:
            self._reuse(pod, name, blocks)

    def _blocks(self, uid: str, name: str) -> list[Block] | None:
        return self._state.memory.get(uid, {}).get(name)

    def _nodes_for(self, pod: Obj, requests: Request, hint: Hint) -> int:
        """The NUMA nodes of a container, from the merged hint."""
        nodes = hint.nodes
        if nodes is None:
            found = self._calculate(pod, requests)
            if not found:
                text = (
                    "failed to get the default NUMA affinity, no NUMA nodes with enough memory is available"
                )
                raise Unallocatable(PREFIX + text)
            hint = self._preferred(hint, _best(found), "failed to find the default preferred hint")
            nodes = hint.nodes
        assert nodes is not None
        totals = self._totals(nodes, requests)
        if all(totals.free[resource] >= size for resource, size in requests.items()):
            return nodes
        wider = [one for one in self._calculate(pod, requests) if not nodes & ~(one.nodes or 0)]
        if not wider:
            raise Unallocatable(PREFIX + "failed to find NUMA nodes to extend the current topology hint")
        hint = self._preferred(hint, _best(wider), "failed to find the extended preferred hint")
        assert hint.nodes is not None
        return hint.nodes

    def _preferred(self, given: Hint, found: Hint, text: str) -> Hint:
        if given.preferred and not found.preferred:
            raise Unallocatable(PREFIX + text)
        return found

    def _reserve(self, nodes: int, resource: str, size: int) -> None:
        for number in bits_of(nodes):
            node = self._state.numa[number]
            node.assignments += 1
            node.cells = nodes
            table = node.tables[resource]
            part = min(size, table.free)
            table.reserved += part
            table.free -= part
            size -= part

    def release(self, uid: str, name: str) -> None:
        """Free the memory of a container."""
        of_pod_ = self._state.memory.get(uid, {})
        for block in of_pod_.pop(name, ()):
            size = block.size
            for number in bits_of(block.nodes):
                node = self._state.numa[number]
                node.assignments -= 1
                if not node.assignments:
                    node.cells = 1 << number
                table = node.tables[block.resource]
                part = min(size, table.reserved)
                table.free += part
                table.reserved -= part
                size -= part
        if not of_pod_:
            self._state.memory.pop(uid, None)

    def started(self, pod: Obj, name: str) -> None:
        """Free the memory of the init containers before the one that starts."""
        for container in pod["spec"].get("initContainers") or ():
            if container["name"] == name:
                return
            self.release(pod["metadata"]["uid"], container["name"])

    # --- memory of init containers, which later containers use again ------------------------------

    def _reusable_of(self, uid: str, nodes: int, resource: str) -> int:
        return self._reusable[1].get((nodes, resource), 0) if self._reusable[0] == uid else 0

    def _reuse(self, pod: Obj, name: str, blocks: Sequence[Block]) -> None:
        uid = pod["metadata"]["uid"]
        held = dict(self._reusable[1]) if self._reusable[0] == uid else {}
        init = is_init(pod, name)
        for block in blocks:
            key = block.nodes, block.resource
            before = held.get(key, 0)
            held[key] = max(before, block.size) if init else max(0, before - block.size)
        self._reusable = uid, held

    def _shrink_init(self, pod: Obj, name: str, blocks: Sequence[Block]) -> None:
        """Let the blocks of earlier init containers show what a later container does not use of
        them.
        """
        uid = pod["metadata"]["uid"]
        for block in blocks:
            size = block.size
            for container in pod["spec"].get("initContainers") or ():
                if container["name"] == name:
                    break
                for held in self._blocks(uid, container["name"]) or ():
                    if held.resource == block.resource and held.nodes == block.nodes:
                        part = min(size, held.size)
                        held.size -= part
                        size -= part

    # --- hints ------------------------------------------------------------------------------------

    def hints(self, pod: Obj, container: Obj) -> Hints:
        """From which NUMA nodes the container could have its memory."""
        if not is_guaranteed(pod):
            return {}
        requests = memory_of(container)
        blocks = self._blocks(pod["metadata"]["uid"], container["name"])
        if blocks is not None:
            return _regenerated(blocks, requests)
        return self._by_resource(pod, requests)

    def pod_hints(self, pod: Obj) -> Hints:
        """From which NUMA nodes all containers of the pod could have their memory.

        Quirk: what only init containers request does not count, and once one container has memory,
        the requests of the whole pod are compared with it.
        """
        if not is_guaranteed(pod):
            return {}
        wanted = {name for container in pod["spec"]["containers"] for name in memory_of(container)}
        requests = {name: size for name, size in of_pod(pod, memory_of).items() if name in wanted}
        for container in containers_of(pod):
            blocks = self._blocks(pod["metadata"]["uid"], container["name"])
            if blocks is not None:
                return _regenerated(blocks, requests)
        return self._by_resource(pod, requests)

    def _by_resource(self, pod: Obj, requests: Request) -> Hints:
        """The same hints for each resource.  Quirk: none at all stand for no preference."""
        found = self._calculate(pod, requests)
        return dict.fromkeys(requests, found) if found else {}

    def _calculate(self, pod: Obj, requests: Request) -> list[Hint]:
        uid, numa = pod["metadata"]["uid"], self._state.numa
        least, found = len(numa), list[int]()
        for nodes in masks_of(range(len(numa))):
            totals = self._totals(nodes, requests)
            if any(totals.allocatable[resource] < size for resource, size in requests.items()):
                continue
            least = min(least, nodes.bit_count())
            if self._is_grouped_otherwise(nodes):
                continue
            if all(
                totals.free[resource] + self._reusable_of(uid, nodes, resource) >= size
                for resource, size in requests.items()
            ):
                found.append(nodes)
        return [Hint(nodes, nodes.bit_count() == least) for nodes in found]

    def _is_grouped_otherwise(self, nodes: int) -> bool:
        """True if one of the NUMA nodes serves others in another group."""
        held = [self._state.numa[number] for number in bits_of(nodes)]
        if len(held) == 1:
            return held[0].cells.bit_count() > 1
        return any(node.assignments and node.cells != nodes for node in held)

    def _totals(self, nodes: int, requests: Request) -> _Totals:
        tables = [self._state.numa[number].tables for number in bits_of(nodes)]
        none = Table(0, 0)
        return _Totals(
            {name: sum(each.get(name, none).free for each in tables) for name in requests},
            {name: sum(each.get(name, none).allocatable for each in tables) for name in requests},
        )


def _empty(number: int, amounts: Mapping[str, int], reserved: Mapping[str, int]) -> NumaState:
    """A NUMA node of which no container has memory; memory in huge pages is no other memory."""
    pages = sum(size for name, size in amounts.items() if name != "memory")
    tables = {}
    for name, size in amounts.items():
        left = size - reserved.get(name, 0) - (pages if name == "memory" else 0)
        tables[name] = Table(left, left)
    return NumaState(tables, 1 << number)


def _best(hints: Sequence[Hint]) -> Hint:
    """The preferred hint with the fewest NUMA nodes, else the one with the fewest."""
    best = hints[0]
    for hint in hints[1:]:
        assert hint.nodes is not None
        assert best.nodes is not None
        same = hint.preferred is best.preferred
        if (hint.preferred and not best.preferred) or (same and is_narrower(hint.nodes, best.nodes)):
            best = hint
    return best


def _regenerated(blocks: Sequence[Block], requests: Request) -> Hints:
    """The hints for memory that a container has already; none if it is not what it requests."""
    if len(blocks) != len(requests) or any(requests.get(block.resource) != block.size for block in blocks):
        return {}
    return {block.resource: [Hint(block.nodes, True)] for block in blocks}
