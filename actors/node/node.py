"""A node as a scenario handles it: its machine, its actor and the faults that can befall them.

Turns "power loss", "shutdown", "hang", "reboot" into what happens to the machine and to the agent's process.  The network's
faults are the network's.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from actors.node.pressure.forecast import Ramp, pressed, shared
from actors.node.runtime.machine import BAD_NETWORK, BAD_RUNTIME, SLOW_RUNTIME, Machine
from actors.node.runtime.profile import Override
from actors.node.runtime.sandboxes import behave
from sim.kernel.actor import Actor
from sim.kernel.kernel import Kernel


class Node:
    """One node.  `actor` runs `node_agent_main(machine, …)`."""

    __slots__ = ("_going_down", "_kernel", "_profile", "_usage", "actor", "machine")

    def __init__(self, kernel: Kernel, machine: Machine, actor: Actor) -> None:
        self._kernel = kernel
        self.machine = machine
        self._profile = machine.spec.profile
        self._usage: Sequence[Override] = ()  # what changes how much programs use
        self.actor = actor
        self._going_down = 0  # the boot that is to end; 0: none

    @property
    def name(self) -> str:
        return self.machine.spec.name

    def power_loss(self) -> None:
        """Everything that runs is gone at once; the disk stays."""
        self._going_down = 0
        self.actor.crash("power loss")
        self.machine.power_loss(self._kernel.now_us)

    def power_on(self) -> None:
        """Boot (again): a new boot id, the agent starts, pods are restarted in new sandboxes."""
        self.machine.power_on()
        self.actor.start()

    def shutdown(self) -> None:
        """Ask the operating system to shut down: the agent may hold that up for its pods, then the power goes."""
        boot, agent = self.machine.boots, self.machine.agent
        if not self.machine.powered or self._going_down == boot:
            return
        self._going_down = boot
        if agent is None:
            self._go_down(boot)
        else:
            agent.ctx.on_stop(lambda: self._go_down(boot))  # an agent that ends holds nothing up
            agent.shutdown.begin(lambda: self._go_down(boot))

    def _go_down(self, boot: int) -> None:
        if self._going_down == boot and self.machine.powered:
            self._kernel.call_later(self.machine.spec.profile.shutdown_us, self._power_off, boot)

    def _power_off(self, boot: int) -> None:
        if self._going_down == boot:
            self.power_loss()

    def cancel_shutdown(self) -> None:
        """It stays up after all (no effect once the power is off)."""
        if self._going_down and self.machine.powered:
            self._going_down = 0
            if self.machine.agent is not None:
                self.machine.agent.shutdown.cancel()

    def reboot(self, down_us: int) -> None:
        self.power_loss()
        self._kernel.call_later(down_us, lambda _: self.power_on())

    def hang(self) -> None:
        """The agent stands still; containers go on."""
        self.actor.pause()

    def resume(self) -> None:
        self.actor.resume()

    def crash_agent(self) -> None:
        """The agent's process ends; containers go on."""
        self.actor.crash("agent crashed")

    def start_agent(self) -> None:
        if self.machine.powered:
            self.actor.start()

    def fail_runtime(self, message: str) -> None:
        """The container runtime stops answering well (RuntimeReady false)."""
        self.machine.runtime_error = message
        self._trouble(BAD_RUNTIME, bool(message))
        self.machine.changed(None)

    def slow_runtime(self, by_us: int) -> None:
        """A slow disk: each thing that the runtime does, a relist too, takes this much longer."""
        self.machine.runtime_delay_us = by_us
        self._trouble(SLOW_RUNTIME, by_us > 0)
        self.machine.changed(None)

    def hang_runtime(self) -> None:
        """The container runtime does not answer at all; containers go on."""
        self.machine.runtime_delay_us = None
        self._trouble(SLOW_RUNTIME, True)
        self.machine.changed(None)

    def heal_runtime(self) -> None:
        self.machine.runtime_delay_us = 0
        self._trouble(SLOW_RUNTIME, False)
        self.fail_runtime("")

    def fail_pod_network(self, message: str) -> None:
        """The network plug-in is not ready."""
        self.machine.network_error = message
        self._trouble(BAD_NETWORK, bool(message))
        self.machine.changed(None)

    def heal_pod_network(self) -> None:
        self.fail_pod_network("")

    def set_pressure(self, resource: str, available: int, ramp_us: int = 0) -> None:
        """Only so much of memory, nodefs, imagefs, nodefs-inodes, imagefs-inodes or pid stays available."""
        self.press(resource, [self.pressure(resource, available, ramp_us)])

    def shared_resource(self, resource: str) -> str:
        """The resource that is used under this name: `imagefs` may be the file system of the node."""
        return shared(self.machine, resource)

    def pressure(self, resource: str, available: int, ramp_us: int = 0) -> Ramp:
        """What has to be used of it from now on for so much to stay available, given what is used now."""
        machine = self.machine
        return pressed(machine, shared(machine, resource), available, self._kernel.now_us, ramp_us)

    def press(self, resource: str, uses: Sequence[Ramp]) -> None:
        """These use the resource beside the pods, one at least."""
        self._trouble(shared(self.machine, resource), True)
        self.machine.press(resource, uses)

    def end_pressure(self, resource: str) -> None:
        """What is no pod gives the resource back."""
        self.machine.eased = self._kernel.cause
        self._trouble(shared(self.machine, resource), False)
        self.machine.end_pressure(resource)

    def _trouble(self, what: str, there: bool) -> None:
        """It is so from now on, unless it was before, or no longer."""
        if not there or what not in self.machine.troubles:
            self.machine.trouble(what, self._kernel.cause if there else 0)

    def behave(self, overrides: Sequence[Override]) -> None:
        """Containers behave so from now on, those that run too; an end that was already planned stays planned.

        Whose pod a container is only an agent knows: where none runs, containers that do follow when one comes.
        """
        machine = self.machine
        usage = tuple(override for override in overrides if override.usage)
        if usage != self._usage:
            self._usage, machine.usage_fault = usage, self._kernel.cause
        machine.pull_faults = {one.image: one.record for one in overrides if one.pull_error}
        machine.spec = replace(machine.spec, profile=self._profile.overridden(overrides))
        agent = machine.agent
        if agent is None:
            return
        agent.spec = machine.spec
        for uid in machine.pods:
            worker = agent.workers.get(uid)
            if worker is not None:
                behave(worker, worker.pod)
        machine.changed(None)

    def set_clock(self, *, offset_us: int, drift_ppm: int) -> None:
        """The machine's clock goes so from now on; what it said before is not forgotten."""
        self.actor.clock.set(self._kernel.now_us, offset_us=offset_us, drift_ppm=drift_ppm)
        if self.machine.agent is not None:
            self.machine.agent.loop.clock_set()

    def write_manifest(self, file: str, manifest: dict[str, Any] | None) -> None:
        """A file of the manifest directory, new or anew; None: with something in it that is no pod."""
        self.machine.manifests = {**self.machine.manifests, file: manifest}
        self._manifest_changed(file)

    def remove_manifest(self, file: str) -> None:
        self.machine.manifests = {name: held for name, held in self.machine.manifests.items() if name != file}
        self._manifest_changed(file)

    def _manifest_changed(self, file: str) -> None:
        if self.machine.agent is not None:
            self.machine.agent.manifests.changed(file)

    def set_health(self, namespace: str, pod: str, container: str, healthy: bool | None) -> bool:
        """Wedge or cure a running container ("" for all of the pod's); None: as its behaviour says."""
        found = False
        for runtime in self.machine.pods.values():
            if runtime.key == f"{namespace}/{pod}":
                for running in runtime.running(self._kernel.now_us):
                    if not container or running.name == container:
                        self.machine.set_health(running, healthy)
                        found = True
        return found

    def end_container(self, namespace: str, pod: str, container: str, code: int, reason: str = "") -> bool:
        """A container's program ends now."""
        for runtime in self.machine.pods.values():
            if runtime.key == f"{namespace}/{pod}":
                newest = runtime.newest(container)
                if newest is not None and newest.running(self._kernel.now_us):
                    self.machine.end_container(newest, self._kernel.now_us, code, reason)
                    return True
        return False
