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


# Linux include/uapi/linux/capability.h, in the order of their bits.
CAPABILITIES = (
    "CHOWN", "DAC_OVERRIDE", "DAC_READ_SEARCH", "FOWNER", "FSETID", "KILL", "SETGID", "SETUID", "SETPCAP",
    "LINUX_IMMUTABLE", "NET_BIND_SERVICE", "NET_BROADCAST", "NET_ADMIN", "NET_RAW", "IPC_LOCK", "IPC_OWNER",
    "SYS_MODULE", "SYS_RAWIO", "SYS_CHROOT", "SYS_PTRACE", "SYS_PACCT", "SYS_ADMIN", "SYS_BOOT", "SYS_NICE",
    "SYS_RESOURCE", "SYS_TIME", "SYS_TTY_CONFIG", "MKNOD", "LEASE", "AUDIT_WRITE", "AUDIT_CONTROL", "SETFCAP",
    "MAC_OVERRIDE", "MAC_ADMIN", "SYSLOG", "WAKE_ALARM", "BLOCK_SUSPEND", "AUDIT_READ", "PERFMON", "BPF",
    "CHECKPOINT_RESTORE",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Identity:
    """The user as which a process runs.

    groups: the supplementary groups, in order
    capabilities: the bounding set, which root has: names without CAP_, in capital letters
    confined: True if no program that it runs gets more rights (no_new_privs)

    Mirrors  capabilities(7): another user than root has none of them after execve, as programs of
             images have no capabilities of their own.
    """

    uid: int = 0
    gid: int = 0
    groups: tuple[int, ...] = ()
    capabilities: frozenset[str] = frozenset(CAPABILITIES)
    confined: bool = False

    def may(self, capability: str) -> bool:
        """True if the user has a capability."""
        return self.uid == 0 and capability in self.capabilities

    def may_signal(self, other: Identity) -> bool:
        """True if the user may send signals to processes of another one."""
        return self.uid == other.uid or self.may("KILL")

    def may_trace(self, other: Identity) -> bool:
        """True if the user may look into processes of another one (ptrace_may_access)."""
        less = other.uid != 0 or other.capabilities <= self.capabilities
        return (self.uid == other.uid and less) or self.may("SYS_PTRACE")


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
        space: object = None,
    ) -> Process:
        """Start a process, which has its first turn in the next run.

        Raises NoProcess if there are too many; then the ends are closed.

        container: its surroundings
        ends: what its descriptors lead to; the process takes over these uses
        space: its namespace of processes; None: its parent's, or that of its container alone
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

    def seen_by(self, process: Process) -> list[Process]:
        """The processes of a process's namespace, oldest first."""
        return [one for one in self.processes if one.space is process.space]


class NoProcess(Exception):
    """A process cannot be started: the pod has as many as it may."""


class Process:
    """One process.

    pid: its number in its namespace of processes, from 1
    space: that namespace, which containers of a pod may share
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
        "space", "table", "umask", "words",
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
        space: object = None,
    ) -> None:
        self.table = table
        self.space = container if space is None else space
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

    @property
    def parent_pid(self) -> int:
        """The number of its parent, 1 after the parent's end, 0 for one from outside."""
        if self.parent is None:
            return 0
        return 1 if self.parent.ended.ready else self.parent.pid

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
