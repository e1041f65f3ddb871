"""A node as a scenario handles it: its machine, its process and the faults of both.

Turns "power loss", "shutdown", "hang", "reboot" into what happens to the machine and to the agent's
process. Faults of the network belong to `sim.kernel.network`.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import replace
from typing import Any

from actors.node.pods.sandboxes import apply_behaviour
from actors.node.runtime.forecast import pressed
from actors.node.runtime.machine import BAD_NETWORK, BAD_RUNTIME, BAD_SANDBOXES, SLOW_RUNTIME, Machine
from actors.node.runtime.profile import Override
from actors.node.runtime.ramps import Ramp
from sim.kernel.actor import Actor
from sim.kernel.kernel import Kernel


class Node:
    """One node.  actor: the process that runs `node_agent_main` over the machine.

    _closing_boot: the number of the boot that a shutdown is to end; 0 without a shutdown
    _usage_overrides: the active faults that change how much programs use
    """

    __slots__ = ("_closing_boot", "_kernel", "_profile", "_usage_overrides", "actor", "machine")

    def __init__(self, kernel: Kernel, machine: Machine, actor: Actor) -> None:
        self._kernel = kernel
        self.machine = machine
        self._profile = machine.spec.profile
        self._usage_overrides: Sequence[Override] = ()
        self.actor = actor
        self._closing_boot = 0

    @property
    def name(self) -> str:
        """The node's name."""
        return self.machine.spec.name

    def power_loss(self) -> None:
        """End everything that runs at once; the disk stays."""
        self._closing_boot = 0
        self.actor.crash("power loss")
        self.machine.power_loss(self._kernel.now_us)

    def power_on(self) -> None:
        """Boot with a new boot id: the agent starts and restarts pods in new sandboxes."""
        self.machine.power_on()
        self.actor.start()

    def shutdown(self) -> None:
        """Ask the operating system to shut down: the agent may delay it for its pods, then the
        power goes off.
        """
        boot, agent = self.machine.boots, self.machine.agent
        if not self.machine.powered or self._closing_boot == boot:
            return
        self._closing_boot = boot
        if agent is None:
            self._power_off_later(boot)
        else:
            # An agent that ends no longer delays the shutdown.
            agent.ctx.on_stop(lambda: self._power_off_later(boot))
            agent.shutdown.begin(lambda: self._power_off_later(boot))

    def _power_off_later(self, boot: int) -> None:
        if self._closing_boot == boot and self.machine.powered:
            self._kernel.call_later(self.machine.spec.profile.shutdown_us, self._power_off, boot)

    def _power_off(self, boot: int) -> None:
        if self._closing_boot == boot:
            self.power_loss()

    def cancel_shutdown(self) -> None:
        """Keep the machine up after all; without effect once the power is off."""
        if self._closing_boot and self.machine.powered:
            self._closing_boot = 0
            if self.machine.agent is not None:
                self.machine.agent.shutdown.cancel()

    def reboot(self, down_us: int) -> None:
        """Lose the power, and boot after a while."""
        self.power_loss()
        self._kernel.call_later(down_us, lambda _: self.power_on())

    def hang(self) -> None:
        """Pause the agent; containers continue."""
        self.actor.pause()

    def resume(self) -> None:
        """Let a paused agent continue."""
        self.actor.resume()

    def crash_agent(self) -> None:
        """End the agent's process; containers continue."""
        self.actor.crash("agent crashed")

    def start_agent(self) -> None:
        """Start the agent's process if the machine has power."""
        if self.machine.powered:
            self.actor.start()

    def fail_runtime(self, message: str) -> None:
        """The container runtime reports that it is not ready; "" ends that."""
        self.machine.errors.runtime = message
        self._note_fault(BAD_RUNTIME, bool(message))
        self.machine.changed(None)

    def slow_runtime(self, by_us: int) -> None:
        """A slow disk: each call of the runtime, and each relist, takes this much longer."""
        self.machine.runtime_delay_us = by_us
        self._note_fault(SLOW_RUNTIME, by_us > 0)
        self.machine.changed(None)

    def hang_runtime(self) -> None:
        """The container runtime answers no call; containers continue."""
        self.machine.runtime_delay_us = None
        self._note_fault(SLOW_RUNTIME, True)
        self.machine.changed(None)

    def heal_runtime(self) -> None:
        """The container runtime works again."""
        self.machine.runtime_delay_us = 0
        self._note_fault(SLOW_RUNTIME, False)
        self.fail_runtime("")

    def fail_pod_network(self, message: str) -> None:
        """The network plug-in reports that it is not ready; "" ends that."""
        self.machine.errors.network = message
        self._note_fault(BAD_NETWORK, bool(message))
        self.machine.changed(None)

    def fail_sandboxes(self, problems: Sequence[Callable[[dict[str, Any]], str]]) -> None:
        """Pods for which one of these returns a message get no sandbox with it."""
        self.machine.errors.sandboxes = problems
        self._note_fault(BAD_SANDBOXES, bool(problems))

    def heal_pod_network(self) -> None:
        """The network plug-in works again."""
        self.fail_pod_network("")

    def set_pressure(self, resource: str, available: int, ramp_us: int = 0) -> None:
        """Leave only so much of memory, nodefs, imagefs, nodefs-inodes, imagefs-inodes or pid
        available.
        """
        self.press(resource, [self.pressure(resource, available, ramp_us)])

    def shared_resource(self, resource: str) -> str:
        """The resource that is used under this name: `imagefs` may be the file system of the node."""
        return self.machine.shared(resource)

    def pressure(self, resource: str, available: int, ramp_us: int = 0) -> Ramp:
        """The use from outside of the pods that leaves this much available, given what is used now."""
        machine = self.machine
        return pressed(machine, machine.shared(resource), available, self._kernel.now_us, ramp_us)

    def press(self, resource: str, uses: Sequence[Ramp]) -> None:
        """These uses, at least one, take up the resource besides the pods."""
        self._note_fault(self.machine.shared(resource), True)
        self.machine.press(resource, uses)

    def end_pressure(self, resource: str) -> None:
        """Only pods use the resource from now on."""
        self.machine.records.relief = self._kernel.cause
        self._note_fault(self.machine.shared(resource), False)
        self.machine.end_pressure(resource)

    def break_devices(self, resource: str, ids: Collection[str]) -> None:
        """Only these devices of a plug-in are not healthy; the agent learns it at once."""
        machine = self.machine
        machine.broken_devices = {**machine.broken_devices, resource: ids}
        if machine.agent is not None:
            machine.agent.resources.list_devices()

    def stop_plugin(self, resource: str) -> None:
        """The plug-in of a resource ends; the agent's connection to it breaks at once."""
        machine = self.machine
        machine.gone_plugins = {**machine.gone_plugins, resource: self._kernel.now_us}
        if machine.agent is not None:
            machine.agent.resources.plugin_stopped()

    def start_plugin(self, resource: str) -> None:
        """The plug-in of a resource runs again, and will register."""
        machine = self.machine
        machine.gone_plugins = {name: at for name, at in machine.gone_plugins.items() if name != resource}
        if machine.agent is not None:
            machine.agent.resources.plugin_started(resource)

    def _note_fault(self, aspect: str, active: bool) -> None:
        """Keep the record of a fault that begins, or drop that of a fault that ends."""
        if not active or aspect not in self.machine.records.aspects:
            self.machine.note_fault(aspect, self._kernel.cause if active else 0)

    def behave(self, overrides: Sequence[Override]) -> None:
        """Containers behave according to these faults from now on, also those that run; an end that
        is already planned stays.

        Only an agent knows the pods of containers: where none runs, containers follow the faults
        when one starts.
        """
        machine = self.machine
        usage = tuple(override for override in overrides if override.usage)
        if usage != self._usage_overrides:
            self._usage_overrides, machine.records.usage = usage, self._kernel.cause
        machine.records.pulls = {one.image: one.record for one in overrides if one.pull_error}
        machine.spec = replace(machine.spec, profile=self._profile.overridden(overrides))
        agent = machine.agent
        if agent is None:
            return
        agent.spec = machine.spec
        for uid in machine.pods:
            worker = agent.workers.get(uid)
            if worker is not None:
                apply_behaviour(worker, worker.pod)
        machine.changed(None)

    def set_clock(self, *, offset_us: int, drift_ppm: int) -> None:
        """Set the machine's clock; its earlier readings are kept."""
        self.actor.clock.set(self._kernel.now_us, offset_us=offset_us, drift_ppm=drift_ppm)
        if self.machine.agent is not None:
            self.machine.agent.loop.clock_set()

    def write_manifest(self, file: str, manifest: dict[str, Any] | None) -> None:
        """Write a file of the manifest directory; None writes a file that holds no pod."""
        self.machine.manifests = {**self.machine.manifests, file: manifest}
        self._manifest_changed(file)

    def remove_manifest(self, file: str) -> None:
        """Remove a file of the manifest directory."""
        self.machine.manifests = {name: held for name, held in self.machine.manifests.items() if name != file}
        self._manifest_changed(file)

    def _manifest_changed(self, file: str) -> None:
        if self.machine.agent is not None:
            self.machine.agent.manifests.changed(file)

    def set_health(self, namespace: str, pod: str, container: str, healthy: bool | None) -> bool:
        """Let the probes of a running container ("" for all of the pod) fail or succeed; None
        follows its behaviour.

        Returns True if there was such a container.
        """
        found = False
        for runtime in self.machine.pods.values():
            if runtime.key == f"{namespace}/{pod}":
                for running in runtime.running(self._kernel.now_us):
                    if not container or running.name == container:
                        self.machine.set_health(running, healthy)
                        found = True
        return found

    def end_container(self, namespace: str, pod: str, container: str, code: int, reason: str = "") -> bool:
        """End a container's program now.  Returns True if the container ran."""
        for runtime in self.machine.pods.values():
            if runtime.key == f"{namespace}/{pod}":
                newest = runtime.newest(container)
                if newest is not None and newest.running(self._kernel.now_us):
                    self.machine.end_container(newest, self._kernel.now_us, code, reason)
                    return True
        return False
