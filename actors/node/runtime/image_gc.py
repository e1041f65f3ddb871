"""Removes images that nobody uses when their disk is full.

Turns how full the images' file system is into removed images: every five minutes if it is fuller than the high
threshold, and all at once when the eviction manager asks (`clear`).  Tells the node's status what images there are: it
shows those of a list that is made every half minute.

A pass asks the runtime for statistics and waits for them without a limit (pkg/kubelet/cri/remote/remote_image.go:
ImageFsInfo), so that a runtime that does not answer makes none fail: the next pass comes five minutes after the answer.

Holds: an image that a container (also a dead one) was made from stays, and so does one known for less than two minutes;
the one that no pass has found in use for longest goes first; a disk that does not fill schedules nothing.

Mirrors  pkg/kubelet/images/image_gc_manager.go: GarbageCollect, freeSpace, detectImages (v1.25).
Differs  images that were last used, and found, at the same time go by name.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Protocol

from actors.node.runtime.forecast import available, capacity, first_below, least_available, turns
from actors.node.runtime.machine import Container
from actors.node.runtime.ports import RuntimeHost
from sim.units import MINUTE, SECOND

PERIOD_US = 5 * MINUTE  # kubelet.go: ImageGCPeriod; image_gc_manager.go: detectImages runs as often
LIST_US = 30 * SECOND  # image_gc_manager.go: imageCache
NO_STATISTICS = "invalid capacity 0 on image filesystem"
SHORTAGE = "failed to garbage collect required amount of images. Wanted to free {} bytes, but freed {} bytes"


def gc_floor(whole: int, high_percent: int) -> int:
    """Images are removed while less than this is available: 100 - floor(available * 100 / whole) >= high."""
    return -((high_percent - 101) * whole // 100)


def removable(
    images: Mapping[str, int],
    used: Iterable[str],
    known_us: Mapping[str, int],
    last_us: Mapping[str, int],
    youngest_us: int,
) -> list[str]:
    """Images to remove, first to last.

    known_us: since when, absent for those that were there from the start; last_us: the last pass that found it in use
    """
    held = dict.fromkeys(used)
    free = [name for name in images if name not in held]
    old = [name for name in free if name not in known_us or known_us[name] <= youngest_us]
    return sorted(old, key=lambda name: (last_us.get(name, -1), known_us.get(name, -1), name))


def _after(turn_us: int, at_us: int) -> int:
    """The first pass after that instant, where one is at `turn_us`."""
    return at_us + PERIOD_US - (at_us - turn_us) % PERIOD_US


class NodeStatus(Protocol):
    """The node's status, which lists the images."""

    def list_images(self) -> None:
        """Show the images that the machine holds now."""
        ...


class Owner(RuntimeHost, Protocol):
    """What the collection uses of the node agent."""

    @property
    def node_loop(self) -> NodeStatus:
        """The loop that writes the node's status."""
        ...


class ImageGC:
    """One agent's image garbage collection.

    _pulled_us: images that this incarnation pulled since something was last removed; _known_us: those before, since the
    pass that found them first; _turn_us: of a pass; _asked_us: of the one that the runtime leaves unanswered, or will, while
    it does not answer; _failed_us: when a pass failed last; _last_us: the last pass that found
    the image in use, of those that a pod used which is gone
    """

    __slots__ = (
        "_agent",
        "_asked_us",
        "_began_us",
        "_due_us",
        "_failed_us",
        "_known_us",
        "_last_us",
        "_pulled_us",
        "_stale",
        "_turn_us",
    )

    def __init__(self, agent: Owner) -> None:
        self._agent = agent
        self._began_us = self._turn_us = agent.now_us
        self._asked_us = -1
        self._due_us = -1
        self._failed_us = agent.now_us  # the first one does
        self._stale = False  # the list is to be made again
        self._pulled_us: dict[str, int] = {}
        self._known_us: dict[str, int] = {}
        self._last_us: dict[str, int] = {}

    def start(self) -> None:
        """The first pass, at once: there are no statistics of the disk yet."""
        if self._agent.options.image_gc_high_percent < 100:
            self._agent.node_event("InvalidDiskCapacity", NO_STATISTICS, "Warning")

    def remove(self, uid: str) -> None:
        """Nothing of the pod is left on the machine."""
        machine = self._agent.machine
        pod = machine.pods.get(uid)
        self.unused(pod.containers if pod is not None else ())
        machine.remove(uid)

    def drop(self, uid: str, gone: Sequence[Container]) -> None:
        """These of the pod's containers are removed."""
        self.unused(gone)
        self._agent.machine.drop(uid, gone)

    def unused(self, gone: Sequence[Container]) -> None:
        """Passes find images in use no more by these, which are about to be removed."""
        machine, now_us = self._agent.machine, self._agent.now_us
        pass_us = now_us - (now_us - self._began_us) % PERIOD_US
        for container in gone if machine.images else ():
            if container.image in machine.images and container.started_us <= pass_us:
                self._last_us[container.image] = max(pass_us, self._last_us.get(container.image, -1))

    def pulled(self, image: str) -> None:
        """A new image takes room."""
        self._pulled_us[image] = self._agent.now_us
        self._changed()

    def _changed(self) -> None:
        """The next list is another one."""
        if not self._stale:
            self._stale = True
            now_us = self._agent.now_us
            self._agent.ctx.call_at_us(now_us + LIST_US - (now_us - self._began_us) % LIST_US, self._list)

    def _list(self, _: object) -> None:
        self._stale = False
        self._agent.node_loop.list_images()

    # --- when to look -------------------------------------------------------------------------------------

    def consider(self) -> None:
        """The disk may be filling: collect at the first pass that finds it too full."""
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
            at_us = _after(self._turn_us, max(now_us, full_us - 1))
            if self._due_us < 0 or at_us < self._due_us:
                self._due_us = at_us
                self._agent.ctx.call_at_us(at_us, self._collect, at_us)

    # --- collecting ---------------------------------------------------------------------------------------

    def _collect(self, planned_us: int) -> None:
        if planned_us != self._due_us:
            return
        self._due_us = -1
        if not self._agent.runtime.silent:
            self._sweep(planned_us)

    def unanswered(self) -> None:
        """From now on the runtime gives no statistics."""
        self._asked_us = _after(self._turn_us, self._agent.now_us - 1)

    def answered(self) -> None:
        """It does again: the pass that waits for them goes on."""
        now_us, asked_us, self._asked_us = self._agent.now_us, self._asked_us, -1
        if now_us >= asked_us and self._agent.options.image_gc_high_percent < 100:
            self._turn_us, self._due_us = now_us, -1
            self._sweep(asked_us)

    def _sweep(self, asked_us: int) -> None:
        """A pass that began then."""
        agent, machine = self._agent, self._agent.machine
        now_us, before_us = agent.now_us, asked_us - PERIOD_US
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
        """Remove every image that may go."""
        self._free(sum(self._agent.machine.images.values()))

    def _free(self, wanted: int) -> int:
        """Remove images until so many bytes are free; returns how many are."""
        agent, machine, now_us = self._agent, self._agent.machine, self._agent.now_us
        used = [container.image for pod in machine.pods.values() for container in pod.containers]
        self._last_us.update((image, now_us) for image in used if image in machine.images)
        # Known from the pass after the pull on, and this is one.
        for image, at_us in self._pulled_us.items():
            self._known_us[image] = min(_after(self._began_us, at_us), now_us)
        self._pulled_us = {}
        freed, youngest_us = 0, now_us - agent.options.minimum_image_ttl_us
        for image in removable(machine.images, used, self._known_us, self._last_us, youngest_us):
            freed += machine.images[image]
            machine.images = {name: size for name, size in machine.images.items() if name != image}
            self._known_us.pop(image, None)
            self._last_us.pop(image, None)
            if freed >= wanted:  # Quirk: one goes in any case
                break
        if freed:
            self._changed()
        return freed
