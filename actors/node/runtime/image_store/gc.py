"""Removes unused images when their disk is full.

Turns the fill level of the images' file system into removed images: every five minutes if it is
above the high threshold, and all at once on request of the eviction manager (`clear`).  Lets the
node's status show the images from a list that is made every half minute.

A pass requests statistics from the runtime and waits for them without a limit
(pkg/kubelet/cri/remote/remote_image.go: ImageFsInfo), so that no pass fails with a runtime that
does not answer: the next pass follows five minutes after the answer.

Holds: an image that a container (also a dead one) was made from stays, and so does one known for
less than two minutes; the image that was unused for longest goes first; a disk that does not fill
schedules nothing.

Mirrors  pkg/kubelet/images/image_gc_manager.go: GarbageCollect, freeSpace, detectImages (v1.25).
Differs  images that were last used, and found, at the same time go in the order of their names.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from actors.node.runtime.containers import Container
from actors.node.runtime.forecast import available, capacity, first_below, least_available, turns
from actors.node.runtime.ports import Agent
from sim.units import MINUTE, SECOND

PERIOD_US = 5 * MINUTE  # kubelet.go: ImageGCPeriod; image_gc_manager.go: detectImages runs as often
LIST_US = 30 * SECOND  # image_gc_manager.go: imageCache
NO_STATISTICS = "invalid capacity 0 on image filesystem"
SHORTAGE = "failed to garbage collect required amount of images. Wanted to free {} bytes, but freed {} bytes"


def gc_floor(whole: int, high_percent: int) -> int:
    """Images are removed while less than this is available.

    100 - floor(available * 100 / whole) >= high_percent, solved for `available`.
    """
    return -((high_percent - 101) * whole // 100)


def removable(
    images: Mapping[str, int],
    used: Iterable[str],
    known_us: Mapping[str, int],
    last_us: Mapping[str, int],
    youngest_us: int,
) -> list[str]:
    """The images to remove, in order.

    known_us: since when an image is known; absent for those that were there from the start
    last_us: the last pass that found an image in use
    """
    held = dict.fromkeys(used)
    free = [name for name in images if name not in held]
    old = [name for name in free if name not in known_us or known_us[name] <= youngest_us]
    return sorted(old, key=lambda name: (last_us.get(name, -1), known_us.get(name, -1), name))


def _pass_after(pass_us: int, at_us: int) -> int:
    """The first pass strictly after an instant, given that one is at `pass_us`."""
    return at_us + PERIOD_US - (at_us - pass_us) % PERIOD_US


class ImageGC:
    """The image garbage collection of one agent incarnation.

    _pass_us: the instant of a pass
    _waiting_since_us: the pass that waits for the statistics of a silent runtime, or will; -1 while
        it answers
    _planned_us: the planned pass; -1 for none
    _failed_us: when a pass failed last
    _list_planned: True if the next list of images is scheduled
    _pulled_us: images that this incarnation pulled since an image was last removed
    _known_us: images from before, by the pass that found them first
    _last_us: the last pass that found an image in use, for images of pods that no longer exist
    """

    __slots__ = (
        "_agent", "_began_us", "_failed_us", "_known_us", "_last_us", "_list_planned", "_pass_us",
        "_planned_us", "_pulled_us", "_waiting_since_us",
    )  # fmt: skip

    def __init__(self, agent: Agent) -> None:
        self._agent = agent
        self._began_us = self._pass_us = agent.now_us
        self._waiting_since_us = -1
        self._planned_us = -1
        self._failed_us = agent.now_us  # the first pass fails
        self._list_planned = False
        self._pulled_us: dict[str, int] = {}
        self._known_us: dict[str, int] = {}
        self._last_us: dict[str, int] = {}

    def start(self) -> None:
        """The first pass, at once, which finds no statistics of the disk yet."""
        if self._agent.options.image_gc_high_percent < 100:
            self._agent.node_event("InvalidDiskCapacity", NO_STATISTICS, "Warning")

    def remove(self, uid: str) -> None:
        """Remove the pod's containers and its sandbox from the machine."""
        machine = self._agent.machine
        pod = machine.pods.get(uid)
        self.unused(pod.containers if pod is not None else ())
        machine.remove(uid)

    def drop(self, uid: str, gone: Sequence[Container]) -> None:
        """Remove some dead containers of a pod."""
        self.unused(gone)
        self._agent.machine.drop(uid, gone)

    def unused(self, gone: Sequence[Container]) -> None:
        """These containers, which are about to be removed, no longer keep images in use."""
        machine, now_us = self._agent.machine, self._agent.now_us
        pass_us = now_us - (now_us - self._began_us) % PERIOD_US
        for container in gone if machine.images else ():
            if container.image in machine.images and container.started_us <= pass_us:
                self._last_us[container.image] = max(pass_us, self._last_us.get(container.image, -1))

    def pulled(self, image: str) -> None:
        """A new image uses disk space."""
        self._pulled_us[image] = self._agent.now_us
        self._changed()

    def _changed(self) -> None:
        """Plan the next list of images, because they have changed."""
        if not self._list_planned:
            self._list_planned = True
            now_us = self._agent.now_us
            self._agent.ctx.call_at_us(now_us + LIST_US - (now_us - self._began_us) % LIST_US, self._list)

    def _list(self, _: object) -> None:
        self._list_planned = False
        self._agent.images_changed()

    # --- planning ---------------------------------------------------------------------------------

    def consider(self) -> None:
        """Plan the first pass that will find the disk too full."""
        high = self._agent.options.image_gc_high_percent
        if high == 100:
            return
        machine, now_us = self._agent.machine, self._agent.now_us
        floor = gc_floor(capacity(machine, "imagefs"), high)
        if least_available(machine, "imagefs", now_us) >= floor:
            return
        full_us = first_below(
            lambda at_us: available(machine, "imagefs", at_us), floor, turns(machine, now_us), now_us
        )
        if full_us is not None:
            at_us = _pass_after(self._pass_us, max(now_us, full_us - 1))
            if self._planned_us < 0 or at_us < self._planned_us:
                self._planned_us = at_us
                self._agent.ctx.call_at_us(at_us, self._collect, at_us)

    # --- collecting -------------------------------------------------------------------------------

    def _collect(self, planned_us: int) -> None:
        if planned_us != self._planned_us:
            return
        self._planned_us = -1
        if not self._agent.runtime.silent:
            self._sweep(planned_us)

    def unanswered(self) -> None:
        """The runtime gives no statistics from now on."""
        self._waiting_since_us = _pass_after(self._pass_us, self._agent.now_us - 1)

    def answered(self) -> None:
        """The runtime gives statistics again: the pass that waits for them continues."""
        now_us, began_us, self._waiting_since_us = self._agent.now_us, self._waiting_since_us, -1
        if now_us >= began_us and self._agent.options.image_gc_high_percent < 100:
            self._pass_us, self._planned_us = now_us, -1
            self._sweep(began_us)

    def _sweep(self, began_us: int) -> None:
        """A pass that began at `began_us`: free bytes if the disk is above the high threshold."""
        agent, machine = self._agent, self._agent.machine
        now_us, before_us = agent.now_us, began_us - PERIOD_US
        whole, left = capacity(machine, "imagefs"), available(machine, "imagefs", now_us)
        if left < gc_floor(whole, agent.options.image_gc_high_percent):
            wanted = whole * (100 - agent.options.image_gc_low_percent) // 100 - left
            freed = self._free(wanted)
            if freed < wanted:
                text = SHORTAGE.format(wanted, freed)
                agent.node_event("FreeDiskSpaceFailed", text, "Warning")
                if self._failed_us == before_us:  # Quirk: only from the second failure in a row on
                    agent.node_event("ImageGCFailed", text, "Warning")
                self._failed_us = now_us
        self.consider()

    def clear(self) -> None:
        """Remove every image that no container uses."""
        self._free(sum(self._agent.machine.images.values()))

    def _free(self, wanted: int) -> int:
        """Remove images until `wanted` bytes are freed; returns the bytes that were freed."""
        agent, machine, now_us = self._agent, self._agent.machine, self._agent.now_us
        used = [container.image for pod in machine.pods.values() for container in pod.containers]
        used.append(agent.options.pod_infra_image)
        self._last_us.update((image, now_us) for image in used if image in machine.images)
        # A pulled image is known from the pass after the pull on, and this is a pass.
        for image, at_us in self._pulled_us.items():
            self._known_us[image] = min(_pass_after(self._began_us, at_us), now_us)
        self._pulled_us = {}
        freed, youngest_us = 0, now_us - agent.options.minimum_image_ttl_us
        for image in removable(machine.images, used, self._known_us, self._last_us, youngest_us):
            freed += machine.images[image]
            machine.images = {name: size for name, size in machine.images.items() if name != image}
            self._known_us.pop(image, None)
            self._last_us.pop(image, None)
            if freed >= wanted:  # Quirk: at least one image is removed
                break
        if freed:
            self._changed()
        return freed
