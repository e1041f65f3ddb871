"""A container in which a test runs a shell: a few programs and an empty folder."""

from __future__ import annotations

from typing import NamedTuple

from actors.node.programs.ends import Null, Output, receive, send
from actors.node.programs.files.inodes import OUTSIDE, Filesystem, Program
from actors.node.programs.files.tree import Tree, Volume
from actors.node.programs.process import Identity, Process
from actors.node.programs.shell import run
from actors.node.programs.surroundings import Surroundings
from actors.node.programs.table import Table
from actors.node.programs.waits import Main, Source, Wait

RUNS_MAX = 20_000
HOUR_US = 3_600_000_000


class Result(NamedTuple):
    """What a shell printed, and how it ended; code: -1 if it did not."""

    out: str
    err: str
    code: int
    end_us: int
    table: Table
    notes: list[str]


def pause(_: Process) -> Main:
    """Runs for ever; it is process 1, so that signals to the shell have their ordinary effect."""
    yield Wait((Source(),))
    return 0


def cat(process: Process) -> Main:
    """Copies its input, or files."""
    for path in process.words[1:]:
        if path.startswith("/dev/fd/"):
            while data := (yield from receive(process.ends[int(path[8:])])):
                yield from send(process.ends[1], data)
            continue
        try:
            yield from send(process.ends[1], process.container.files.read(path, process))
        except Exception:
            yield from send(process.ends[2], f"cat: {path}: No such file or directory\n".encode())
            return 1
    while len(process.words) == 1 and (data := (yield from receive(process.ends[0]))):
        yield from send(process.ends[1], data)
    return 0


def echo(process: Process) -> Main:
    """Prints its arguments."""
    yield from send(process.ends[1], " ".join(process.words[1:]).encode() + b"\n")
    return 0


def sleep(process: Process) -> Main:
    """Waits for seconds."""
    until_us = process.now_us + int(process.words[1]) * 1_000_000
    while process.now_us < until_us:
        yield Wait(until_us=until_us)
    return 0


def remove(process: Process) -> Main:
    """Takes files away."""
    for path in process.words[2:]:
        process.container.files.unlink(path, process)
    yield from ()
    return 0


def shell(
    *words: str, until_us: int = HOUR_US, stdin: bytes = b"", files: dict[str, bytes] | None = None
) -> Result:
    """Run a shell up to its end."""
    programs = dict.fromkeys(("sh", "ash", "bash", "dash"), run) | {
        "cat": cat,
        "echo": echo,
        "sleep": sleep,
        "rm": remove,
    }
    layer = Volume(Filesystem("overlay"))
    tree = Tree(layer, (), lambda: 0, programs=programs)
    for path in ("/bin", "/tmp", "/root", "/tmp/work"):
        tree.mkdir(path, OUTSIDE, 0o755)
    for name in sorted(programs):
        folder = tree.lookup("/bin", OUTSIDE)
        assert hasattr(folder, "add")
        folder.add(name, Program(layer.filesystem, name, 0), 0)
    for path, data in (files or {}).items():
        tree.write(path, data, mode=0o755)
    out, err, notes = bytearray(), bytearray(), list[str]()
    around = Surroundings("main", files=tree, unknown=notes.append)
    table = Table(lambda: None)
    table.spawn(pause, around, ("pause",), {}, "/", Identity(), ends={})
    end = Null()
    if stdin:
        tree.write("/tmp/input", stdin)
        end = tree.open("/tmp/input", OUTSIDE)  # type: ignore[assignment]
    env = {"PATH": "/usr/bin:/bin", "HOME": "/root"}
    process = table.spawn(
        run,
        around,
        words,
        env,
        "/tmp/work",
        Identity(),
        ends={0: end, 1: Output(out.extend), 2: Output(err.extend)},
    )
    now_us = 0
    for _ in range(RUNS_MAX):
        table.run(now_us)
        if process.ended.ready or table.next_us is None or table.next_us > until_us:
            break
        now_us = table.next_us
    return Result(
        out.decode(errors="replace"), err.decode(errors="replace"), process.ended.code, now_us, table, notes
    )
