"""The managers of processors, memory and devices as the agent runs them: registrations of plug-ins,
reconciliations, and what a starting container gets.

Holds: an agent without managers schedules nothing here.

Mirrors  pkg/kubelet/cm/container_manager_linux.go: Start, GetResources, UpdatePluginResources;
         cpumanager/cpu_manager.go: Start; a plug-in that watches the agent's socket (v1.25).
Differs  reconciliations that change nothing are left out.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial

from actors.node.pods.admit import refuse_sysctls
from actors.node.pods.ports import PodAgent
from actors.node.resources.devices import GONE_US
from actors.node.resources.managers import managers_of, memory_nodes, usable_cpus
from actors.node.resources.topology import topology_of
from sim.api.types import Obj
from sim.options.features.gates import enabled
from sim.options.node.resources import OWN_RESERVED, SYSTEM_RESERVED

NONE: Mapping[str, str] = {}


class Resources:
    """The managers of one agent incarnation.

    _managers: None if nothing is allocated
    _known: True once the pods of the API are handled
    _began_us: when the runtime was ready; reconciliations follow in their period
    """

    __slots__ = ("_agent", "_began_us", "_known", "_managers", "_planned")

    def __init__(self, agent: PodAgent) -> None:
        self._agent = agent
        self._began_us = -1
        self._planned = self._known = False
        machine, spec, options = agent.machine, agent.spec, agent.options
        devices = spec.devices if enabled(options.feature_gates, "DevicePlugins") else ()
        self._managers = managers_of(
            spec.capacity, spec.topology, devices, machine.broken_devices, options, machine.allocations
        )

    def start(self) -> None:
        """The runtime is ready: limits are set, plug-ins can register, containers get
        processors.
        """
        for text in self._enforced():
            self._agent.node_event("NodeAllocatableEnforced", text)
        if self._managers is None:
            return
        agent = self._agent
        self._began_us = agent.now_us
        for spec in self._managers.devices.specs.values():
            if agent.machine.allocations.plugins_ready and spec.resource not in agent.machine.gone_plugins:
                self._managers.devices.register(spec.resource)
            else:
                agent.ctx.call_later_us(spec.register_us, self._register, spec.resource)
        agent.machine.allocations.plugins_ready = False
        self.list_devices()
        self._managers.reconcile(self._active())

    def _enforced(self) -> list[str]:
        """What events say of the control groups for which the agent has set limits.

        Mirrors  node_container_manager_linux.go: enforceNodeAllocatableCgroups (v1.25).
        """
        options = self._agent.options
        texts = ["Updated Node Allocatable limit across pods"] if options.cgroups_per_qos else []
        if SYSTEM_RESERVED in options.enforce_node_allocatable:
            texts.append(f"Updated limits on system reserved cgroup {options.system_reserved_cgroup}")
        if any(level in OWN_RESERVED for level in options.enforce_node_allocatable):
            texts.append(
                f"Updated limits on {self._agent.names.short} reserved cgroup {options.orch_reserved_cgroup}"
            )
        return texts

    def _register(self, resource: str) -> None:
        assert self._managers is not None
        if resource not in self._agent.machine.gone_plugins:
            self._managers.devices.register(resource)
            self.list_devices()

    def plugin_stopped(self) -> None:
        """A plug-in has ended: its devices are not healthy, and after a while they are forgotten."""
        if self._managers is not None and self._began_us >= 0:
            self.list_devices()
            self._agent.ctx.call_later_us(GONE_US, lambda _: self.list_devices())

    def plugin_started(self, resource: str) -> None:
        """A plug-in runs again."""
        if self._managers is not None and self._began_us >= 0:
            spec = self._managers.devices.specs[resource]
            self._agent.ctx.call_later_us(spec.register_us, self._register, resource)

    def list_devices(self) -> None:
        """Show the devices and their health in the node's status."""
        if self._managers is not None:
            machine, devices = self._agent.machine, self._managers.devices
            devices.unhealthy, devices.gone = machine.broken_devices, machine.gone_plugins
            total, healthy = devices.amounts(self._agent.now_us)
            if total:
                self._agent.node_loop.list_amounts(total, healthy)

    def pods_known(self) -> None:
        """The pods of the API are handled, so that what others had is freed."""
        self._known = True

    def _active(self) -> list[str]:
        assert self._managers is not None
        self._managers.sources_ready = self._known and self._agent.sources_ready
        return [uid for uid, worker in self._agent.workers.items() if worker.requests is not None]

    # --- pods and containers ----------------------------------------------------------------------

    def admit(self, pod: Obj) -> tuple[str, str] | None:
        """Allocate what the pod's containers request, or say why the pod is refused.

        Its sysctls are checked before.
        """
        refusal = refuse_sysctls(pod, self._agent.options.allowed_unsafe_sysctls)
        if self._managers is None or refusal is not None:
            return refusal
        refusal = self._managers.admit(pod, self._active())
        self.changed()
        return refusal

    def node_for(self, pod: Obj, node: Obj) -> Obj:
        """The node with which the pod's requests are compared: it offers what the pod has
        already.
        """
        status = node.get("status") or {}
        if self._managers is None:
            return node
        raised = self._managers.devices.sanitized(pod["metadata"]["uid"], status.get("allocatable") or {})
        return node if raised is None else {**node, "status": {**status, "allocatable": raised}}

    def changed(self) -> None:
        """Pods have got or left something: reconcile in time."""
        managers, ctx = self._managers, self._agent.ctx
        if managers is None or managers.cpus is None or self._planned or self._began_us < 0:
            return
        self._planned = True
        period_us = self._agent.options.cpu_manager_reconcile_period_us
        ctx.call_later_us(period_us - (self._agent.now_us - self._began_us) % period_us, self._reconcile)

    def _reconcile(self, _: object) -> None:
        assert self._managers is not None
        self._planned = False
        self._managers.reconcile(self._active())

    def starting(self, pod: Obj, name: str, instance: str) -> None:
        """A container is about to start as this instance."""
        if self._managers is not None:
            self._managers.starting(pod, name, instance)

    def devices(self, pod: Obj, name: str) -> Sequence[str]:
        """The names below /dev of the devices that a container has."""
        if self._managers is None:
            return ()
        held = self._managers.devices.of_container(pod["metadata"]["uid"], name)
        return [each for ids in held.values() for each in ids]

    def environment(self, pod: Obj, name: str) -> Mapping[str, str]:
        """The variables that devices give to a container."""
        if self._managers is None:
            return NONE
        return self._managers.devices.environment(pod["metadata"]["uid"], name)

    def views(self, pod: Obj, name: str, instance: str) -> tuple[Callable[[], int], Callable[[], int]] | None:
        """The processors and NUMA nodes that an instance may use, when called; None: all."""
        if self._managers is None:
            return None
        spec, uid = self._agent.spec, pod["metadata"]["uid"]
        topology, allocations = topology_of(spec.capacity, spec.topology), self._agent.machine.allocations
        return (
            partial(usable_cpus, allocations, topology, uid, name, instance),
            partial(memory_nodes, allocations, topology, uid, name),
        )
