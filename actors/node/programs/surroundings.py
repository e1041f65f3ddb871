"""What the processes of one container share: its files, its network, its clock, facts of its node.

The runtime makes one `Surroundings` when a container with a known program starts, and every process
of the container has it as `Process.container`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import field
from typing import Any

from actors.node.programs.waits import Source
from sim.api.types import Reply
from sim.dataclass import dataclass
from sim.units import Wall


def _epoch(now_us: int) -> Wall:
    return Wall(now_us)


def _unnoticed(_: str) -> None:
    pass


class Answer(Source):
    """The answer of an API server.  reply: None until it has come"""

    __slots__ = ("reply",)

    def __init__(self) -> None:
        super().__init__()
        self.reply: Reply | None = None

    def take(self, reply: Reply) -> None:
        """It has come."""
        self.reply = reply
        self.set()


@dataclass(frozen=True, slots=True)
class NodeFacts:
    """What programs can learn about the machine on which they run.

    name: the node's name
    arch: as in the Node's status, such as amd64
    cpus: how many processors it has
    memory_bytes, swap_bytes: how much memory and swap it has
    sysctls: name with dots -> value, of those that all containers share
    """

    name: str = "node"
    kernel_version: str = "5.15.0"
    arch: str = "amd64"
    cpus: int = 8
    memory_bytes: int = 32 << 30
    swap_bytes: int = 0
    sysctls: Mapping[str, str] = field(default_factory=dict)


DEFAULT_FACTS = NodeFacts()


@dataclass(frozen=True, slots=True)
class Limits:
    """What a container may use, as its control group shows it.

    memory_bytes: 0: no limit
    swap_bytes: None: no limit of its own
    cpu_quota_us: the processor time in each period of cpu_period_us; 0: no limit
    """

    memory_bytes: int = 0
    swap_bytes: int | None = None
    cpu_quota_us: int = 0
    cpu_period_us: int = 100_000


NO_LIMITS = Limits()


@dataclass(slots=True, eq=False)
class Surroundings:
    """One instance of a container, as its processes see it.  Two are equal only if they are one.

    name: the container's name; pod and namespace: those of its pod
    hostname: as `hostname` shows it
    files: its view of the file system (`files.Tree`)
    network: the network of its pod (`network.Network`)
    wall: turns an instant of virtual time into the reading of the node's clock
    usable: give the processors, and the NUMA nodes for memory, that it may use; None: all
    sysctls: name with dots -> value, of those that the pod sets
    seccomp: True if a profile filters its calls of the kernel
    oom_score_adj: by how many thousandths of the machine's memory its processes seem larger
    read_only: True if the container's own file system can only be read
    woken: True if the server has only run so far, and its log has what it prints at its start
    ask: sends a request to the API server as the pod's service account; None without one
    unknown: takes a note of something that the interpreter cannot do, in a sentence without a dot
    missing: the same of what a program prints itself, as one of a real image that lacks it would
    """

    name: str
    image: str = ""
    pod: str = ""
    namespace: str = "default"
    hostname: str = ""
    files: Any = None
    network: Any = None
    wall: Callable[[int], Wall] = _epoch
    node: NodeFacts = DEFAULT_FACTS
    limits: Limits = NO_LIMITS
    usable: tuple[Callable[[], int], Callable[[], int]] | None = None
    sysctls: Mapping[str, str] = field(default_factory=dict)
    read_only: bool = False
    seccomp: bool = False
    oom_score_adj: int = 0
    woken: bool = False
    ask: Callable[..., Answer] | None = None
    unknown: Callable[[str], None] = _unnoticed
    missing: Callable[[str], None] = _unnoticed

    @property
    def cpus(self) -> int:
        """The processors that it may use, as a set of bits."""
        return self.usable[0]() if self.usable is not None else (1 << self.node.cpus) - 1

    @property
    def memory_nodes(self) -> int:
        """The NUMA nodes of the memory that it may use, as a set of bits."""
        return self.usable[1]() if self.usable is not None else 1

    def wall_us(self, now_us: int) -> Wall:
        """The reading of the node's clock at an instant of virtual time."""
        return self.wall(now_us)
