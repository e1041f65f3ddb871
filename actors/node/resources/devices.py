"""The device manager: devices of plug-ins, and the containers that have them.  Pure.

A scenario describes the devices of a machine and its plug-ins, which register with each incarnation
of the agent some time after its start.

Mirrors  pkg/kubelet/cm/devicemanager: manager.go, topology_hints.go (v1.25).
Differs  upstream takes devices in the order of a map, so that it is random; here the first ones are
         taken. Plug-ins prefer no devices; what they allocate is the value of a variable, and a
         file below /dev with the id of each device.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence

from actors.node.resources.hints import Hint, Hints, hints_of
from actors.node.resources.refusals import Unallocatable
from actors.node.resources.requests import is_init, limits_of, of_pod
from actors.node.resources.state import Allocations
from sim.api.types import Obj
from sim.options.machines import DeviceSpec
from sim.units import MINUTE

GONE_US = 5 * MINUTE  # endpoint.go: endpointStopGracePeriod


class DeviceManager:
    """The devices as one incarnation of the agent knows them.

    unhealthy: resource -> the ids of devices that are broken, of the machine
    gone: resource -> since when its plug-in does not run, of the machine
    _connected: the plug-ins that have registered
    _reusable: of the pod that is being admitted: resource -> the devices of its init containers
    """

    def __init__(
        self,
        specs: Sequence[DeviceSpec],
        numa_count: int,
        unhealthy: Mapping[str, Collection[str]],
        state: Allocations,
        affinity: Callable[[str, str], Hint],
    ) -> None:
        self.specs = {spec.resource: spec for spec in specs}
        self.unhealthy = unhealthy
        self.gone: Mapping[str, int] = {}
        self._numa_count = numa_count
        self._state = state
        self._affinity = affinity
        self._connected: dict[str, DeviceSpec] = {}
        self._reusable: tuple[str, dict[str, tuple[str, ...]]] = ("", {})

    # --- plug-ins ---------------------------------------------------------------------------------

    def register(self, resource: str) -> None:
        """A plug-in has registered, and has listed its devices."""
        self._connected[resource] = self.specs[resource]
        if resource not in self._state.registered:
            self._state.registered.append(resource)

    def amounts(self, now_us: int = 0) -> tuple[dict[str, str], dict[str, str]]:
        """Capacity and allocatable: all devices, and the healthy ones.

        Resources of plug-ins that have not registered again after the agent's start have 0, and so
        have those of plug-ins that ended `GONE_US` ago.
        """
        known = self._state.registered
        for name, since_us in self.gone.items():
            if now_us - since_us >= GONE_US:
                self._connected.pop(name, None)
        total = {
            name: str(len(self._connected[name].ids) if name in self._connected else 0) for name in known
        }
        return total, {name: str(len(self._healthy(name))) for name in known}

    def _healthy(self, resource: str) -> tuple[str, ...]:
        spec = self._connected.get(resource)
        broken = self.unhealthy.get(resource, ())
        return (
            ()
            if spec is None or resource in self.gone
            else tuple(each for each in spec.ids if each not in broken)
        )

    def _manages(self, resource: str) -> bool:
        return resource in self._state.registered

    # --- allocation -------------------------------------------------------------------------------

    def of_container(self, uid: str, name: str) -> Mapping[str, tuple[str, ...]]:
        """resource -> the devices that a container has."""
        return self._state.devices.get(uid, {}).get(name, {})

    def environment(self, uid: str, name: str) -> dict[str, str]:
        """The variables of a container's devices."""
        held = self.of_container(uid, name)
        return {
            spec.env: ",".join(ids)
            for resource, ids in held.items()
            if (spec := self.specs.get(resource)) is not None and spec.env
        }

    def allocate(self, pod: Obj, container: Obj) -> None:
        """Give a container its devices.  Raises Unallocatable."""
        uid, name = pod["metadata"]["uid"], container["name"]
        reusable = dict(self._reusable[1]) if self._reusable[0] == uid else {}
        for resource, count in limits_of(container).items():
            if self._manages(resource):
                found = self._chosen(uid, name, resource, count, reusable.get(resource, ()))
                if found:
                    held = self._state.devices.setdefault(uid, {}).setdefault(name, {})
                    held[resource] = found
        for resource, ids in self.of_container(uid, name).items():
            before = reusable.get(resource, ())
            if is_init(pod, name):
                reusable[resource] = (*before, *(each for each in ids if each not in before))
            else:
                reusable[resource] = tuple(each for each in before if each not in ids)
        self._reusable = uid, reusable

    def _chosen(
        self, uid: str, name: str, resource: str, count: int, reusable: Sequence[str]
    ) -> tuple[str, ...]:
        """The devices for a request; empty if the container has them already."""
        held = self.of_container(uid, name).get(resource, ())
        if held and len(held) != count:
            raise Unallocatable(
                f'pod "{uid}" container "{name}" changed request for resource "{resource}" from {len(held)} to {count}'
            )
        healthy = self._healthy(resource)
        if not healthy:
            raise Unallocatable(f"no healthy devices present; cannot allocate unhealthy devices {resource}")
        if any(each not in healthy for each in held):
            raise Unallocatable(
                f"previously allocated devices are no longer healthy; cannot allocate unhealthy devices {resource}"
            )
        if held or not count:
            return ()
        chosen = list(reusable[:count])
        needed = count - len(chosen)
        available = self._available(resource)
        if len(available) < needed:
            raise Unallocatable(
                f"requested number of devices unavailable for {resource}. "
                f"Requested: {needed}, Available: {len(available)}"
            )
        ordered = self._by_affinity(uid, name, resource, available)
        return (*chosen, *ordered[:needed])

    def _available(self, resource: str) -> list[str]:
        used = {
            each
            for containers in self._state.devices.values()
            for held in containers.values()
            for each in held.get(resource, ())
        }
        return [each for each in self._healthy(resource) if each not in used]

    def _by_affinity(self, uid: str, name: str, resource: str, available: Sequence[str]) -> list[str]:
        """The devices near to the NUMA nodes of the hint first."""
        nodes = self._affinity(uid, name).nodes
        if nodes is None or not self.specs[resource].numa:
            return list(available)
        return sorted(available, key=lambda each: not nodes >> self._numa_of(resource, each) & 1)

    def _numa_of(self, resource: str, device: str) -> int:
        spec = self.specs[resource]
        return spec.numa[spec.ids.index(device)]

    def release(self, uid: str) -> None:
        """Free the devices of a pod."""
        self._state.devices.pop(uid, None)

    def sanitized(self, uid: str, allocatable: Mapping[str, str]) -> Mapping[str, str] | None:
        """What admission compares with: at least what is allocated, even without a plug-in.

        None for a pod without devices.
        """
        if uid not in self._state.devices:
            return None
        used: dict[str, int] = {}
        for containers in self._state.devices.values():
            for held in containers.values():
                for resource, ids in held.items():
                    used[resource] = used.get(resource, 0) + len(ids)
        raised = {name: str(count) for name, count in used.items() if int(allocatable.get(name, "0")) < count}
        return {**allocatable, **raised}

    # --- hints ------------------------------------------------------------------------------------

    def hints(self, pod: Obj, container: Obj) -> Hints:
        """From which NUMA nodes the container could have its devices."""
        uid = pod["metadata"]["uid"]
        reusable = self._reusable[1] if self._reusable[0] == uid else {}
        held = self.of_container(uid, container["name"])
        return {
            resource: self._hints(resource, count, held.get(resource, ()), reusable.get(resource, ()))
            for resource, count in limits_of(container).items()
            if self._manages(resource)
        }

    def pod_hints(self, pod: Obj) -> Hints:
        """From which NUMA nodes all containers of the pod could have their devices."""
        held: dict[str, list[str]] = {}
        for devices in self._state.devices.get(pod["metadata"]["uid"], {}).values():
            for resource, ids in devices.items():
                held.setdefault(resource, []).extend(ids)
        return {
            resource: self._hints(resource, count, tuple(held.get(resource, ())), ())
            for resource, count in of_pod(pod, limits_of).items()
            if self._manages(resource)
        }

    def _hints(
        self, resource: str, count: int, held: Sequence[str], reusable: Sequence[str]
    ) -> list[Hint] | None:
        spec = self._connected.get(resource)
        if spec is None or not spec.numa:
            return None
        if held:
            if len(held) != count:
                return []
            available, reusable = list(held), ()
        else:
            available = self._available(resource)
            if len({*available, *reusable}) < count:
                return []

        def near(ids: Sequence[str], nodes: int) -> int:
            return sum(1 for each in ids if nodes >> self._numa_of(resource, each) & 1)

        found = hints_of(
            range(self._numa_count),
            lambda nodes: near(spec.ids, nodes) >= count,
            lambda nodes: (
                near(reusable, nodes) == len(reusable) and len(reusable) + near(available, nodes) >= count
            ),
        )
        return [Hint(nodes, nodes.bit_count() == least) for nodes, least in found]
