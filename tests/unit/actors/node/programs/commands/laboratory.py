"""A container with known files, in which a test runs one command after another."""

from __future__ import annotations

from collections.abc import Sequence

from actors.node.programs.commands import COMMANDS
from actors.node.programs.ends import Output, pipe
from actors.node.programs.files.inodes import OUTSIDE, Directory, Filesystem, Program
from actors.node.programs.files.tree import Tree, Volume
from actors.node.programs.lookup import NotRunnable, program
from actors.node.programs.process import Identity, Process
from actors.node.programs.surroundings import Surroundings
from actors.node.programs.table import Table
from sim.units import SECOND, Wall

MADE_US = 1_661_212_800 * SECOND  # 2022-08-23T00:00:00Z, of all files
WALL_US = 1_795_824_000 * SECOND  # 2026-11-28T00:00:00Z
FILES = {
    "a.txt": b"one two\nthree\n\nfour five six\n", "n.txt": b"10\n9\n2\n33\n2\n",
    "t.tsv": b"b:2:x\na:10:y\nc:1:z\na:3:w\n", "empty": b"", "d/x": b"x\n", "d/y/z": b"deep\n", "d/.h": b"hidden\n",
    "words": b"apple\nBanana\ncherry\napple pie\nfoo.bar\n", "bin": bytes(range(0, 256, 5)) + b"\0\0hello",
}  # fmt: skip


class Laboratory:
    """A container: `run` runs a command in it."""

    def __init__(self, *, busybox: bool = False, bytes_max: int = 1 << 30) -> None:
        self.table = Table(lambda: None)
        self.surroundings = Surroundings("c", hostname="pod-1", wall=lambda now_us: Wall(WALL_US + now_us))
        volume = Volume(Filesystem(bytes_max=bytes_max), now_us=WALL_US)
        self.files = Tree(volume, (), lambda: WALL_US + self.table.now_us, busybox=busybox, programs=COMMANDS)
        self.surroundings.files = self.files
        for path in ("/bin", "/w", "/w/d", "/w/d/y", "/tmp", "/dev", "/etc"):
            self.files.mkdir(path, OUTSIDE, 0o755)
        self.files.write("/etc/passwd", b"root:x:0:0:root:/root:/bin/sh\n", mode=0o644)
        self.files.write("/etc/group", b"root:x:0:\n", mode=0o644)
        for path, data in FILES.items():
            self.files.write(f"/w/{path}", data, mode=0o644)
        for path, target in (("l", "a.txt"), ("broken", "gone"), ("ld", "d")):
            self.files.symlink(target, f"/w/{path}", OUTSIDE)
        self.files.chmod("/w/n.txt", OUTSIDE, 0o600)
        self.files.chmod("/w/words", OUTSIDE, 0o755)
        for path in ("", *self.names()):
            self.files.lookup(f"/w/{path}".rstrip("/"), OUTSIDE, follow=False).mtime_us = MADE_US
        folder = self.files.lookup("/bin", OUTSIDE)
        assert isinstance(folder, Directory)
        for name in COMMANDS:
            folder.add(name, Program(volume.filesystem, name), WALL_US)
        self.identity = Identity()
        self.printed, self.errors = bytearray(), bytearray()

    def start(self, words: Sequence[str], data: bytes = b"") -> Process:
        """Start a command with bytes as its input."""
        reader, writer = pipe(size=1 << 20)
        writer.write(data)
        writer.close()
        self.printed, self.errors = bytearray(), bytearray()
        ends = {0: reader, 1: Output(self.printed.extend), 2: Output(self.errors.extend)}
        shell = self.table.spawn(
            lambda _: iter(()),
            self.surroundings,
            ("sh",),
            {"PATH": "/bin", "HOME": "/root", "TZ": "UTC"},
            "/w",
            self.identity,
            ends={},
        )  # type: ignore[arg-type, return-value]
        runs = program(shell, tuple(words))
        return self.table.spawn(
            runs,
            self.surroundings,
            tuple(words),
            shell.env,
            "/w",
            self.identity,
            ends=ends,  # type: ignore[arg-type]
        )

    def advance(self, until_us: int) -> None:
        """Let virtual time pass."""
        while (next_us := self.table.next_us) is not None and next_us <= until_us:
            self.table.run(next_us)
        self.table.run(until_us)

    def run(
        self, words: Sequence[str], data: bytes = b"", until_us: int = 3600 * SECOND
    ) -> tuple[bytes, bytes, int]:
        """Run a command to its end: what it prints, its errors, its code."""
        try:
            process = self.start(words, data)
        except NotRunnable as reason:
            return b"", reason.text.encode(), reason.code
        while not process.ended.ready and (next_us := self.table.next_us) is not None and next_us <= until_us:
            self.table.run(next_us)
        return bytes(self.printed), bytes(self.errors), process.ended.code

    def names(self) -> list[str]:
        """All names below /w."""
        found: list[str] = []

        def visit(folder: Directory, prefix: str) -> None:
            for name, inode in folder.entries.items():
                found.append(prefix + name)
                if isinstance(inode, Directory):
                    visit(inode, f"{prefix}{name}/")

        top = self.files.lookup("/w", OUTSIDE)
        assert isinstance(top, Directory)
        visit(top, "")
        return sorted(found)
