"""What the kernel shows of a container."""

from __future__ import annotations

import pytest

from actors.node.programs.files.errors import FileError
from actors.node.programs.files.handles import READING, WRITING
from actors.node.programs.files.inodes import OUTSIDE, Filesystem
from actors.node.programs.files.special import ZEROS, RandomBytes, system_mounts
from actors.node.programs.files.tree import Tree, Volume
from actors.node.programs.process import Identity, Process
from actors.node.programs.surroundings import Surroundings
from actors.node.programs.table import Table
from actors.node.programs.waits import Main, Source, Wait


def waits(process: Process) -> Main:
    """A program that waits for ever."""
    yield Wait((Source(),))
    return 0


def container(name: str = "c") -> Process:
    """A process in a container that has the kernel's files."""
    surroundings = Surroundings(name, hostname="pod-1", sysctls={"kernel.shm_rmid_forced": "1"})
    surroundings.files = Tree(
        Volume(Filesystem("overlay", source="overlay")), system_mounts(name, 0), lambda: 0
    )
    return Table(lambda: None).spawn(
        waits, surroundings, ("sleep", "9"), {"A": "1"}, "/tmp", Identity(7, 8), ends={}
    )


def read(process: Process, path: str) -> bytes:
    """What a process reads."""
    files: Tree = process.container.files
    return files.read(path, process)


def test_proc_shows_the_processes_of_the_container_and_its_node() -> None:
    process = container()
    other = process.child(waits, ("/bin/x", "y"))
    files: Tree = process.container.files
    assert files.listdir("/proc", process)[:2] == ["1", "2"]
    assert files.readlink("/proc/self", other) == "2"
    assert read(process, "/proc/2/cmdline") == b"/bin/x\0y\0"
    assert read(process, "/proc/self/environ") == b"A=1\0"
    assert b"Uid:\t7\t7\t7\t7\n" in read(process, "/proc/1/status")
    assert read(process, "/proc/sys/kernel/shm_rmid_forced") == b"1\n"
    assert read(process, "/proc/sys/kernel/hostname") == b"pod-1\n"
    assert b"overlay / overlay rw,relatime 0 0\nproc /proc proc ro" in read(process, "/proc/mounts")
    assert files.listdir("/proc/sys/vm", process) == [
        "max_map_count",
        "overcommit_memory",
        "panic_on_oom",
        "swappiness",
    ]
    with pytest.raises(FileError) as caught:
        files.open("/proc/sys/vm/swappiness", OUTSIDE, WRITING)
    assert caught.value.code == "EROFS"


def test_devices_behave_as_their_names_say() -> None:
    process = container()
    files: Tree = process.container.files
    assert read(process, "/dev/null") == b""
    assert files.open("/dev/zero", process, READING).read(1 << 30) == bytes(ZEROS)
    with pytest.raises(FileError) as caught:
        files.open("/dev/full", process, WRITING).write(b"x")
    assert caught.value.code == "ENOSPC"


def test_random_bytes_follow_from_the_name_and_do_not_repeat() -> None:
    one, other = container("a"), container("b")
    first, second, third = read(one, "/dev/urandom"), read(one, "/dev/urandom"), read(other, "/dev/urandom")
    assert len({first, second, third}) == 3
    assert read(container("a"), "/dev/urandom") == first
    assert len(RandomBytes("x").take(100)) == 100


def test_looking_at_proc_often_counts_nothing() -> None:
    process = container()
    files: Tree = process.container.files
    folder = files.lookup("/proc", process)
    for _ in range(100):
        files.lookup("/proc/self/status", process)
    assert folder.filesystem.inodes_used == 0
