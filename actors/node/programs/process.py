"""A process: what a program can see and change of its surroundings.

Turns words, an environment, a folder and descriptors into the values that a program works with; the
program itself is a generator (`waits.Main`).

Holds: a process belongs to one container; its descriptors are closed when it ends, and its children
go on without it, as children of process 1.

Mirrors  fork(2), execve(2), signal(7): what a child inherits (environment, folder, descriptors,
         identity, ignored signals) and what not (caught signals).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from enum import IntEnum
from typing import Any

from actors.node.programs.ends import End
from actors.node.programs.waits import Main, Source
from sim.dataclass import dataclass


class Signal(IntEnum):
    """The signals that programs of containers meet, with Linux' numbers."""

    HUP = 1
    INT = 2
    QUIT = 3
    ABRT = 6
    KILL = 9
    USR1 = 10
    SEGV = 11
    USR2 = 12
    PIPE = 13
    ALRM = 14
    TERM = 15
    CHLD = 17
    CONT = 18
    STOP = 19


# Signals that a process without a handler takes no notice of.
HARMLESS = (Signal.CHLD, Signal.CONT)
KILLED = 128  # a shell's exit code for a process that a signal has ended is this and its number


@dataclass(frozen=True, slots=True)
class Identity:
    """The user as which a process runs.

    groups: the supplementary groups, in order
    capabilities: names without CAP_, in capital letters
    """

    uid: int = 0
    gid: int = 0
    groups: tuple[int, ...] = ()
    capabilities: frozenset[str] = frozenset()


class Ended(Source):
    """The end of a process.  code: as a shell shows it; -1 while the process runs"""

    __slots__ = ("code",)

    def __init__(self) -> None:
        super().__init__()
        self.code = -1


class Processes(ABC):
    """The processes of a pod as one of them sees them.  now_us: the instant of virtual time"""

    __slots__ = ("now_us",)
    now_us: int

    @abstractmethod
    def spawn(
        self,
        main: Callable[[Process], Main],
        container: Any,
        words: tuple[str, ...],
        env: Mapping[str, str],
        cwd: str,
        identity: Identity,
        *,
        ends: dict[int, End],
        parent: Process | None = None,
    ) -> Process:
        """Start a process, which has its first turn in the next run.

        Raises NoProcess if there are too many; then the ends are closed.

        container: its surroundings; processes of one container have numbers of their own
        ends: what its descriptors lead to; the process takes over these uses
        """

    @abstractmethod
    def signal(self, process: Process, number: int, *, outside: bool = False) -> None:
        """Send a signal.

        outside: True if it comes from outside of the container, so that SIGKILL reaches process 1
        """

    @property
    @abstractmethod
    def processes(self) -> tuple[Process, ...]:
        """The processes under way, oldest first."""


class NoProcess(Exception):
    """A process cannot be started: the pod has as many as it may."""


class Process:
    """One process.

    pid: its number in its pod, from 1 in each container unless the pod shares its processes
    parent: the process that started it; None for the first of a container and of an `exec`
    container: the surroundings that all processes of its container share (`Container`)
    words: the program's name and its arguments
    env: the environment; a process changes its own copy
    cwd: the working directory, an absolute path
    ends: what its descriptors lead to
    caught: signals for which it has a handler; `pending` has those that came and were not handled
    ignored: signals that it ignores
    ended: its end
    """

    __slots__ = (
        "caught", "container", "cwd", "ended", "ends", "env", "identity", "ignored", "parent", "pending", "pid",
        "table", "umask", "words",
    )  # fmt: skip

    def __init__(
        self,
        table: Processes,
        pid: int,
        container: Any,
        words: tuple[str, ...],
        env: Mapping[str, str],
        cwd: str,
        identity: Identity,
        ends: dict[int, End],
        parent: Process | None,
    ) -> None:
        self.table = table
        self.pid = pid
        self.parent = parent
        self.container = container
        self.words = words
        self.env = dict(env)
        self.cwd = cwd
        self.identity = identity
        self.umask: int = 0o022 if parent is None else parent.umask
        self.ends = ends
        self.caught: set[int] = set()
        self.ignored: frozenset[int] = parent.ignored if parent is not None else frozenset()
        self.pending: list[int] = []
        self.ended = Ended()

    @property
    def now_us(self) -> int:
        """The instant of virtual time."""
        return self.table.now_us

    def child(
        self,
        main: Callable[[Process], Main],
        words: tuple[str, ...],
        *,
        ends: Mapping[int, End] | None = None,
    ) -> Process:
        """Start a child process, which inherits everything.

        ends: its descriptors, None for those of this process; shared: the caller keeps its own and
            closes them
        """
        return self.table.spawn(
            main, self.container, words, self.env, self.cwd, self.identity,
            ends={fd: end.share() for fd, end in (self.ends if ends is None else ends).items()},
            parent=self,
        )  # fmt: skip

    def close(self, fd: int) -> None:
        """Close a descriptor, if it is open."""
        end = self.ends.pop(fd, None)
        if end is not None:
            end.close()

    def replace(self, fd: int, end: End) -> None:
        """Let a descriptor lead elsewhere, as dup2 does; takes over one use of the end."""
        self.close(fd)
        self.ends[fd] = end
