"""Images of one node: present, pulled, refused.

Turns a container's image and pull policy into time (`ensure` yields how long) and, on failure, into
the reason of the container's waiting state.

Mirrors  pkg/kubelet/images/image_manager.go: EnsureImageExists; puller.go: serial puller;
         helpers.go: a pull beyond the registry's rate limit fails and does not wait (v1.25).
"""

from __future__ import annotations

from collections.abc import Generator

from actors.node.backoff import Backoff
from actors.node.pod_work import WAIT, Reason, Work
from actors.node.runtime.call_deadlines import read_object
from actors.node.runtime.image_store.credentials import (
    has_user,
    is_private,
    provided,
    pull_secrets,
    registries_of,
    unauthorized,
)
from actors.node.runtime.image_store.gc import ImageGC
from actors.node.runtime.image_store.names import fault_of
from actors.node.runtime.ports import Agent, NodePod
from sim.api.types import Obj
from sim.client.rest.limiter import TokenBucket
from sim.dataclass import dataclass
from sim.kernel.causes import caused_by
from sim.units import format_duration

RATE_EXCEEDED = "pull QPS exceeded"


@dataclass(slots=True)
class Pull:
    """One attempt to pull an image.

    cause: the trace record that led to it
    authorized: False if the image needs credentials, and there are none
    duration_us, error: the result, known once the registry was called
    """

    worker: NodePod
    work: Work
    image: str
    cause: int
    duration_us: int = 0
    error: str | None = None
    authorized: bool = True


class Images:
    """The image manager of one agent incarnation."""

    __slots__ = ("_agent", "_back_off", "_image_gc", "_pulling", "_queue", "_registry")

    def __init__(self, agent: Agent, image_gc: ImageGC) -> None:
        self._agent, self._image_gc = agent, image_gc
        self._back_off = Backoff()
        self._queue: list[Pull] = []
        self._pulling = False
        self._registry = TokenBucket(agent.options.registry_qps, agent.options.registry_burst)

    def forget(self, uid: str) -> None:
        """Drop the back-offs of a pod that no longer exists."""
        self._back_off.forget(uid)

    def _present(self, image: str) -> bool:
        """True if the machine holds the image."""
        profile, machine = self._agent.spec.profile, self._agent.machine
        if profile.pull_error(image) is not None:
            return False
        if is_private(image, profile.private_images):
            return image in machine.images
        return image not in machine.missing if profile.warm else image in machine.images

    def ensure(self, worker: NodePod, spec: Obj) -> Generator[int, None, Reason | None]:
        """Make the image present.  Returns None, or why it is not present."""
        agent, image, name = self._agent, spec["image"], spec["name"]
        fault = fault_of(image)
        if fault:
            message = f'Failed to apply default image tag "{image}": couldn\'t parse image reference "{image}": {fault}'
            agent.event(worker.pod, "Warning", "InspectFailed", message, container=name)
            return self._failed(worker, name, "InvalidImageName", message)
        policy = spec.get("imagePullPolicy") or "IfNotPresent"
        present = self._present(image)
        if present and policy != "Always":
            text = f'Container image "{image}" already present on machine'
            agent.event(worker.pod, "Normal", "Pulled", text, container=name)
            return None
        if policy == "Never":
            message = f'Container image "{image}" is not present with pull policy of Never'
            agent.event(worker.pod, "Warning", "ErrImageNeverPull", message, container=name)
            return self._failed(worker, name, "ErrImageNeverPull", message)
        key = f"{worker.uid}_{image}"
        if self._back_off.held_since_update_us(key, agent.ctx.now_us()):
            message = f'Back-off pulling image "{image}"'
            agent.event(worker.pod, "Normal", "BackOff", message, container=name)
            return self._failed(worker, name, "ImagePullBackOff", message)
        agent.event(worker.pod, "Normal", "Pulling", f'Pulling image "{image}"', container=name)
        began_us = agent.now_us
        assert worker.work is not None
        pull = Pull(worker, worker.work, image, agent.ctx.kernel.cause)
        if is_private(image, agent.spec.profile.private_images):
            pull.authorized = yield from self._has_credentials(worker, image)
        if agent.options.serialize_image_pulls:
            self._queue.append(pull)
            self._pull_next()
            yield WAIT
        else:
            yield self._begin(pull)
            self._end(pull)
        agent.durations.called("pull_image", pull.duration_us, answered=pull.error is None)
        if (error := pull.error) is not None:
            now_us = agent.ctx.now_us()
            self._back_off.next(key, now_us, now_us)
            meta = worker.pod["metadata"]
            why = {
                "image": image,
                "error": error,
                "wait_us": self._back_off.held_since_update_us(key, now_us),
                "fault": agent.machine.records.pulls.get(image, 0),
            }
            agent.ctx.decided("pull-back-off", f"pods/{meta['namespace']}/{meta['name']}", why)
            text = f'Failed to pull image "{image}": {error}'
            agent.event(worker.pod, "Warning", "Failed", text, container=name)
            return self._failed(worker, name, "ErrImagePull", error)
        waited = format_duration(agent.now_us - began_us)
        text = f'Successfully pulled image "{image}" in {format_duration(pull.duration_us)} ({waited} including waiting)'
        agent.event(worker.pod, "Normal", "Pulled", text, container=name)
        return None

    def _has_credentials(self, worker: NodePod, image: str) -> Generator[int, None, bool]:
        """True if a provider, or a pull secret of the pod, has credentials for the image.

        Quirk: a secret that is missing changes nothing.
        """
        if provided(self._agent.options, image):
            return True
        for name in pull_secrets(worker.pod):
            reply = yield from read_object(self._agent, worker, "secrets", name)
            if reply.ok and has_user(registries_of(reply.obj), image):
                return True
        return False

    def _failed(self, worker: NodePod, name: str, reason: str, message: str) -> Reason:
        self._agent.event(worker.pod, "Warning", "Failed", f"Error: {reason}", container=name)
        return reason, message

    def _pull_next(self) -> None:
        if not self._pulling and self._queue:
            self._pulling = True
            pull = self._queue.pop(0)
            with caused_by(self._agent.ctx.kernel, pull.cause):
                self._agent.ctx.call_later_us(self._begin(pull), self._pulled, pull)

    def _begin(self, pull: Pull) -> int:
        """Call the registry now; returns the duration.

        An image that another pull has completed in between is only checked.
        """
        registry, agent = self._registry, self._agent
        if registry.limits and not registry.take(agent.now_us):
            pull.error = RATE_EXCEEDED
            return 0
        profile = agent.spec.profile
        pull.error = profile.pull_error(pull.image)
        if not pull.authorized and pull.error is None:
            pull.error = unauthorized(pull.image)
        pull_us = profile.pull_us + (agent.machine.runtime_delay_us or 0)
        pull.duration_us = profile.refresh_us if self._present(pull.image) else pull_us
        return pull.duration_us

    def _end(self, pull: Pull) -> None:
        """Take over the result of a pull.

        An image that the registry refused is missing until a pull of it succeeds.
        """
        agent, image = self._agent, pull.image
        machine, profile = agent.machine, agent.spec.profile
        other_missing = tuple([one for one in machine.missing if one != image])
        if pull.error is not None:
            machine.missing = machine.missing if pull.error == RATE_EXCEEDED else (*other_missing, image)
            return
        machine.missing = other_missing
        is_kept = not profile.warm or is_private(image, profile.private_images)
        if is_kept and image not in machine.images:
            machine.images = {**machine.images, image: profile.image_bytes}
            self._image_gc.pulled(image)
            agent.consider_pressure()

    def _pulled(self, pull: Pull) -> None:
        self._pulling = False
        self._end(pull)
        self._pull_next()
        pull.worker.proceed(pull.work)
