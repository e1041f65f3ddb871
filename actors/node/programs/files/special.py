"""What the kernel shows of a container: /proc, /dev and /sys.

The content is made when a process reads it, from the surroundings of that process.

Mirrors  proc(5), null(4), random(4), full(4); the mounts of runc's default specification.
Differs  random bytes follow from a name, so that two runs of a simulation have the same; the kernel
         shows only what scripts usually read.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from actors.node.programs.ends import End, Null
from actors.node.programs.files.errors import FileError
from actors.node.programs.files.inodes import (
    Device,
    Directory,
    FileCaller,
    Filesystem,
    Generated,
    Inode,
    Symlink,
)
from actors.node.programs.files.tree import Mount, Portal, Volume
from actors.node.programs.process import CAPABILITIES, Process
from actors.node.resources.topology import cpu_text
from sim.options.machines import SWAPS_HEAD, swap_row
from sim.units import SECOND

CHUNK = 65536  # bytes of one read of random ones
ZEROS = 1 << 20  # bytes of one read of zeros
OWN_DEVICES = 240  # the first major number for local use, Documentation/admin-guide/devices.txt
SHM_BYTES = 64 << 20  # containerd: the size of /dev/shm
# What sysctls hold if the pod does not set them: those of a Linux node.
SYSCTLS = {
    "fs.file-max": "9223372036854775807",
    "fs.inotify.max_user_watches": "524288",
    "kernel.keys.root_maxbytes": "25000000",
    "kernel.keys.root_maxkeys": "1000000",
    "kernel.msgmax": "8192",
    "kernel.ostype": "Linux",
    "kernel.panic": "10",
    "kernel.panic_on_oops": "1",
    "kernel.pid_max": "4194304",
    "kernel.shm_rmid_forced": "0",
    "kernel.shmall": "18446744073692774399",
    "kernel.shmmax": "18446744073692774399",
    "net.core.somaxconn": "4096",
    "net.ipv4.ip_forward": "1",
    "net.ipv4.ip_local_port_range": "32768\t60999",
    "net.ipv4.ip_unprivileged_port_start": "1024",
    "net.ipv4.ping_group_range": "1\t0",
    "net.ipv4.tcp_keepalive_time": "7200",
    "net.ipv4.tcp_syncookies": "1",
    "vm.max_map_count": "262144",
    "vm.overcommit_memory": "1",
    "vm.panic_on_oom": "0",
    "vm.swappiness": "60",
}


class _Uncounted(Filesystem):
    """A filesystem without a size: its inodes come and go with each look."""

    def take(self, size: int, inodes: int = 0) -> None:
        """It has room for everything."""

    def give_back(self, size: int, inodes: int = 0) -> None:
        """Nothing is counted."""


class Zero(End):
    """`/dev/zero`."""

    __slots__ = ()

    def read(self, size: int) -> bytes:
        """Zeros."""
        return bytes(min(size, ZEROS))


class Full(Zero):
    """`/dev/full`."""

    __slots__ = ()

    def write(self, data: bytes) -> int:
        """There is never room."""
        raise FileError("ENOSPC") if data else FileError("EINVAL")


class RandomBytes:
    """Bytes that look random and follow from a name.  Holds: no two reads have the same."""

    __slots__ = ("_drawn", "name")

    def __init__(self, name: str) -> None:
        self.name = name
        self._drawn = 0

    def take(self, size: int) -> bytes:
        """The next bytes."""
        self._drawn += 1
        return hashlib.shake_128(f"{self.name}/{self._drawn}".encode()).digest(size)


class Random(End):
    """`/dev/urandom`."""

    __slots__ = ("_source",)

    def __init__(self, source: RandomBytes) -> None:
        super().__init__()
        self._source = source

    def read(self, size: int) -> bytes:
        """Random bytes."""
        return self._source.take(min(size, CHUNK))


def sysctls(by: Any) -> dict[str, str]:
    """The sysctls that a process sees."""
    container = getattr(by, "container", None)
    if container is None:
        return SYSCTLS
    own = {"kernel.hostname": container.hostname, "kernel.osrelease": container.node.kernel_version}
    return dict(sorted({**SYSCTLS, **container.node.sysctls, **own, **container.sysctls}.items()))


class _Live(Directory):
    """A directory with entries that depend on the process that looks.

    Nothing can be made or removed in it.
    """

    __slots__ = ("_entry", "_names")

    def __init__(
        self,
        filesystem: Filesystem,
        entry: Callable[[str, Any], Inode | None],
        names: Callable[[Any], list[str]],
    ) -> None:
        super().__init__(filesystem, 0o555)
        self._entry = entry
        self._names = names
        self.links = 1

    def entry(self, name: str, by: FileCaller) -> Inode | None:
        """What a name leads to."""
        return self.entries.get(name) or self._entry(name, by)

    def names(self, by: FileCaller) -> list[str]:
        """The names in it."""
        return sorted({**self.entries, **dict.fromkeys(self._names(by))})


def _sysctl_folder(filesystem: Filesystem, prefix: str) -> _Live:
    def entry(name: str, by: Any) -> Inode | None:
        full, held = prefix + name, sysctls(by)
        if full in held:
            return Generated(filesystem, lambda reader: f"{sysctls(reader).get(full, '')}\n".encode(), 0o644)
        if any(key.startswith(full + ".") for key in held):
            return _sysctl_folder(filesystem, full + ".")
        return None

    def names(by: Any) -> list[str]:
        return [key[len(prefix) :].partition(".")[0] for key in sysctls(by) if key.startswith(prefix)]

    return _Live(filesystem, entry, names)


def _facts(make: Callable[[Any], str]) -> Callable[[Any], bytes]:
    """Content from the surroundings of the reader; nothing outside of a container."""

    def content(by: Any) -> bytes:
        container = getattr(by, "container", None)
        return make(by).encode("utf-8", "surrogateescape") if container is not None else b""

    return content


def _meminfo(by: Any) -> str:
    total = by.container.node.memory_bytes // 1024
    free = total * 3 // 4
    rows = {
        "MemTotal": total, "MemFree": free, "MemAvailable": free, "Buffers": 0, "Cached": 0, "SwapCached": 0,
        "SwapTotal": by.container.node.swap_bytes // 1024, "SwapFree": by.container.node.swap_bytes // 1024,
    }  # fmt: skip
    return "".join(f"{name + ':':<16}{amount:>8} kB\n" for name, amount in rows.items())


def _swaps(by: Any) -> str:
    size = by.container.node.swap_bytes
    return f"{SWAPS_HEAD}\n{swap_row(size)}\n" if size else f"{SWAPS_HEAD}\n"


def _cpuinfo(by: Any) -> str:
    return "".join(
        f"processor\t: {number}\nvendor_id\t: GenuineIntel\nmodel name\t: Simulated CPU\ncpu cores\t: 1\n\n"
        for number in range(by.container.node.cpus)
    )


def mount_rows(by: Any) -> list[tuple[str, str, str, str]]:
    """What is mounted: source, path, type and options."""
    found = []
    for path, mount in by.container.files.mounts.items():
        filesystem = mount.inode.filesystem
        found.append(
            (filesystem.source, path, filesystem.kind, "ro,relatime" if mount.read_only else "rw,relatime")
        )
    return found


def _mounts(by: Any) -> str:
    return "".join(
        f"{source} {path} {kind} {options} 0 0\n" for source, path, kind, options in mount_rows(by)
    )


def _seconds(by: Any) -> str:
    return f"{by.now_us // SECOND}.{by.now_us % SECOND // 10_000:02d}"


_TEXTS: Mapping[str, Callable[[Any], str]] = {
    "cmdline": lambda by: "BOOT_IMAGE=/boot/vmlinuz\n",
    "cpuinfo": _cpuinfo,
    "filesystems": lambda by: "nodev\tproc\nnodev\ttmpfs\nnodev\toverlay\n\text4\n",
    "loadavg": lambda by: f"0.00 0.00 0.00 1/{len(by.table.processes)} {by.pid}\n",
    "meminfo": _meminfo,
    "mounts": _mounts,
    "stat": lambda by: f"cpu  0 0 0 0 0 0 0 0 0 0\nbtime {by.container.wall_us(0) // SECOND}\n",
    "swaps": _swaps,
    "uptime": lambda by: f"{_seconds(by)} {_seconds(by)}\n",
    "version": lambda by: f"Linux version {by.container.node.kernel_version} (build@host) #1 SMP\n",
}


def _processes(by: Any) -> dict[str, Process]:
    """The processes that a process sees: those of its namespace."""
    table = getattr(by, "table", None)
    if table is None:
        return {}
    return {str(one.pid): one for one in table.seen_by(by)}


def _status(one: Process) -> str:
    who, groups = one.identity, " ".join(map(str, one.identity.groups))
    held = 0 if who.uid else capability_bits(who.capabilities)
    return (
        f"Name:\t{one.words[0].rpartition('/')[2][:15]}\nUmask:\t{one.umask:04o}\nState:\tS (sleeping)\nTgid:\t{one.pid}\n"
        f"Pid:\t{one.pid}\nPPid:\t{one.parent_pid}\n"
        f"Uid:\t{who.uid}\t{who.uid}\t{who.uid}\t{who.uid}\nGid:\t{who.gid}\t{who.gid}\t{who.gid}\t{who.gid}\n"
        f"Groups:\t{groups} \nThreads:\t1\nCapInh:\t{0:016x}\nCapPrm:\t{held:016x}\nCapEff:\t{held:016x}\n"
        f"CapBnd:\t{capability_bits(who.capabilities):016x}\nCapAmb:\t{0:016x}\nNoNewPrivs:\t{int(who.confined)}\n"
        f"Seccomp:\t{2 if one.container.seccomp else 0}\nCpus_allowed:\t{one.container.cpus:x}\n"
        f"Cpus_allowed_list:\t{cpu_text(one.container.cpus)}\n"
        f"Mems_allowed_list:\t{cpu_text(one.container.memory_nodes)}\n"
    )


def capability_bits(names: frozenset[str]) -> int:
    """Capabilities as the bits that /proc shows."""
    return sum(1 << at for at, name in enumerate(CAPABILITIES) if name in names)


def _shared(end: End) -> Callable[[Any], End]:
    return lambda by: end.share()


def _constant(data: bytes) -> Callable[[Any], bytes]:
    return lambda by: data


def _process_folder(filesystem: Filesystem, one: Process, by: Any) -> Directory:
    folder = Directory(filesystem, 0o555, 0, one.identity.uid, one.identity.gid)
    words = "\0".join(one.words) + "\0"
    texts = {
        "cgroup": "0::/\n",
        "cmdline": words,
        "comm": f"{one.words[0].rpartition('/')[2][:15]}\n",
        "environ": "".join(f"{name}={value}\0" for name, value in one.env.items()),
        "limits": "Limit                     Soft Limit           Hard Limit           Units     \n"
        "Max open files            1048576              1048576              files     \n",
        "mounts": "",
        "oom_score_adj": f"{one.container.oom_score_adj}\n",
        "stat": f"{one.pid} ({one.words[0].rpartition('/')[2][:15]}) S {one.parent_pid} 1 1 0\n",
        "status": _status(one),
    }
    for name, text in texts.items():
        data = text.encode("utf-8", "surrogateescape")
        make = _facts(_mounts) if name == "mounts" else _constant(data)
        folder.entries[name] = Generated(filesystem, make, 0o400 if name == "environ" else 0o444)
        folder.entries[name].uid = one.identity.uid
    folder.entries["cwd"] = Symlink(filesystem, one.cwd)
    elsewhere = one.container is not by.container and one.container.files is not None
    folder.entries["root"] = (
        Portal(filesystem, one.container.files, one) if elsewhere else Symlink(filesystem, "/")
    )
    folder.entries["exe"] = Symlink(
        filesystem, one.words[0] if one.words[0][:1] == "/" else f"/bin/{one.words[0]}"
    )
    opened = Directory(filesystem, 0o555)
    for fd, end in sorted(one.ends.items()):
        opened.entries[str(fd)] = Device(filesystem, _shared(end), (136, 0))
    folder.entries["fd"] = opened
    return folder


def _proc() -> Directory:
    filesystem = _Uncounted("proc", source="proc", device=0x15)

    def entry(name: str, by: Any) -> Inode | None:
        if name in ("self", "thread-self"):
            return Symlink(filesystem, str(getattr(by, "pid", 1)))
        one = _processes(by).get(name)
        return None if one is None else _process_folder(filesystem, one, by)

    root = _Live(filesystem, entry, lambda by: [*_processes(by), "self"])
    for name, make in _TEXTS.items():
        root.entries[name] = Generated(filesystem, _facts(make))
    root.entries["sys"] = _sysctl_folder(filesystem, "")
    return root


def _dev(random: RandomBytes, wall_us: int, own: Iterable[str]) -> Directory:
    filesystem = Filesystem("tmpfs", source="tmpfs", bytes_max=64 << 20, device=0x16)
    root = Directory(filesystem, 0o755, wall_us)

    def terminal(by: Any) -> End:
        for fd in (0, 1, 2):
            end = getattr(by, "ends", {}).get(fd)
            if isinstance(end, End) and end.terminal:
                return end.share()
        raise FileError("ENXIO")

    devices: dict[str, tuple[Callable[[Any], End], tuple[int, int]]] = {
        "null": (lambda by: Null(), (1, 3)),
        "zero": (lambda by: Zero(), (1, 5)),
        "full": (lambda by: Full(), (1, 7)),
        "random": (lambda by: Random(random), (1, 8)),
        "urandom": (lambda by: Random(random), (1, 9)),
        "tty": (terminal, (5, 0)),
    }
    for number, each in enumerate(own):
        devices[each] = lambda by: Zero(), (OWN_DEVICES, number)
    for name, (lead, numbers) in devices.items():
        root.add(name, Device(filesystem, lead, numbers), wall_us)
    links = {
        "fd": "/proc/self/fd",
        "stdin": "/proc/self/fd/0",
        "stdout": "/proc/self/fd/1",
        "stderr": "/proc/self/fd/2",
    }
    for name, target in links.items():
        root.add(name, Symlink(filesystem, target, wall_us), wall_us)
    for name, mode in (("mqueue", 0o1777), ("pts", 0o755), ("shm", 0o1777)):
        root.add(name, Directory(filesystem, mode, wall_us), wall_us)
    return root


def _cgroup() -> Directory:
    filesystem = _Uncounted("cgroup2", source="cgroup", device=0x17)
    root = Directory(filesystem, 0o555)

    def cpu(by: Any) -> str:
        return f"{by.container.limits.cpu_quota_us or 'max'} {by.container.limits.cpu_period_us}\n"

    def cpus(by: Any) -> str:
        return f"{cpu_text(by.container.cpus)}\n"

    def memory_nodes(by: Any) -> str:
        return f"{cpu_text(by.container.memory_nodes)}\n"

    texts: dict[str, Callable[[Any], str]] = {
        "cgroup.controllers": lambda by: "cpuset cpu io memory hugetlb pids rdma\n",
        "cpu.max": cpu,
        "cpuset.cpus": lambda by: cpus(by) if by.container.usable is not None else "\n",
        "cpuset.cpus.effective": cpus,
        "cpuset.mems.effective": memory_nodes,
        "memory.max": lambda by: f"{by.container.limits.memory_bytes or 'max'}\n",
        "memory.swap.max": lambda by: (
            "max\n" if (most := by.container.limits.swap_bytes) is None else f"{most}\n"
        ),
        "pids.max": lambda by: "max\n",
    }
    for name, make in texts.items():
        root.entries[name] = Generated(filesystem, _facts(make))
    return root


def system_mounts(name: str, wall_us: int, devices: Iterable[str] = ()) -> list[Mount]:
    """The mounts of /proc, /dev and /sys/fs/cgroup that every container has.

    name: of the random bytes, other than that of every other container
    devices: names below /dev of what plug-ins have allocated
    """
    shm = Volume(Filesystem("tmpfs", source="shm", bytes_max=SHM_BYTES, device=0x18), 0o1777, wall_us)
    return [
        Mount("/proc", _proc(), read_only=True),
        Mount("/dev", _dev(RandomBytes(name), wall_us, devices)),
        Mount("/dev/shm", shm.root),
        Mount("/sys/fs/cgroup", _cgroup(), read_only=True),
    ]
