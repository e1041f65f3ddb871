"""What the steps of the volume binder do and see.

Mirrors  kubernetes v1.25 pkg/controller/volume/persistentvolume/pv_controller.go
         (updateVolumePhase, unbindVolume).
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Generator, Iterable
from typing import NamedTuple

from actors.controllers.persistentvolume_binder import decide
from actors.controllers.shared import steps
from actors.controllers.shared.steps import Answer, SyncFailed, T, Update
from sim.api.types import Obj
from sim.dataclass import dataclass
from sim.ident import Names
from sim.options.controllers.manager import ControllerManagerOptions

CLAIMS, VOLUMES = "persistentvolumeclaims", "persistentvolumes"
Lookup = Callable[[str], Obj | None]


@dataclass(frozen=True, slots=True)
class Begin:
    """Begin an operation, unless one of its name runs or has failed just now."""

    name: str
    steps: Callable[[], Steps[None]]


@dataclass(frozen=True, slots=True)
class QueueClaim:
    """Let a claim be synced."""

    key: str


Steps = Generator[steps.Action | Begin | QueueClaim, Answer, T]


class Seen(NamedTuple):
    """What the steps see besides the claim or the volume.

    assigns: True if claims without a class get the default one
    honors: True if the data of a volume are deleted before it
    volumes, classes: all of them; pods_of: the pods that use a claim, by its key
    new_uid: makes a uid
    """

    names: Names
    options: ControllerManagerOptions
    assigns: bool
    honors: bool
    claim_of: Lookup
    volume_of: Lookup
    class_of: Lookup
    node_of: Lookup
    volumes: Callable[[], Iterable[Obj]]
    classes: Callable[[], Iterable[Obj]]
    pods_of: Callable[[str], Collection[Obj]]
    new_uid: Callable[[], str]


def write(resource: str, obj: Obj, problem: str = "", subresource: str = "") -> Steps[Obj]:
    """Update an object; returns the stored one.  Raises SyncFailed with the text after `problem`."""
    reply = (yield Update(resource, obj, subresource)).reply
    if not reply.ok:
        raise SyncFailed(problem + reply.message)
    return reply.obj


def set_volume_phase(volume: Obj, phase: decide.VolumePhase, message: str = "") -> Steps[None]:
    """Write the phase of a volume.  Raises SyncFailed."""
    new = decide.volume_in_phase(volume, phase, message)
    if new is not volume:
        yield from write(VOLUMES, new, subresource="status")


def unbind(volume: Obj, names: Names) -> Steps[None]:
    """Take the claim from a volume, which is Available then.  Raises SyncFailed."""
    written = yield from write(VOLUMES, decide.released_from_claim(volume, names))
    yield from set_volume_phase(written, "Available")
