"""Redirections: what the descriptors of a command lead to.

Mirrors  POSIX shell command language 2.7; bash's `&>` and `<<<`.
"""

from __future__ import annotations

from collections.abc import Generator, Iterable

from actors.node.programs.ends import End, Null
from actors.node.programs.files.errors import FileError
from actors.node.programs.files.handles import APPENDING, BOTH, READING, WRITING
from actors.node.programs.shell import expand
from actors.node.programs.shell.nodes import Redirect
from actors.node.programs.shell.state import Shell
from actors.node.programs.waits import Wait

DESCRIPTORS_MAX = 1024  # the usual soft limit of RLIMIT_NOFILE
_FLAGS = {
    "<": READING,
    ">": WRITING,
    ">|": WRITING,
    ">>": APPENDING,
    "<>": BOTH,
    "&>": WRITING,
    "&>>": APPENDING,
}
_OWN = {"/dev/stdin": "0", "/dev/stdout": "1", "/dev/stderr": "2"}


class Refused(Exception):
    """A redirection failed; the text says why."""


class Document(End):
    """The content of a here document."""

    __slots__ = ("_at", "_data")

    def __init__(self, data: bytes) -> None:
        super().__init__()
        self._data = data
        self._at = 0

    def read(self, size: int) -> bytes:
        """The next bytes."""
        taken = self._data[self._at : self._at + size]
        self._at += len(taken)
        return taken


class Redirection:
    """Redirections under way.  `undo` puts the descriptors back."""

    def __init__(self, shell: Shell) -> None:
        self.shell = shell
        self.saved: dict[int, End | None] = {}

    def apply(
        self, redirects: Iterable[Redirect], substitute: expand.Substitute
    ) -> Generator[Wait, None, None]:
        """Carry them out in order.  Raises Refused."""
        for redirect in redirects:
            if redirect.op in ("<<", "<<<"):
                text = yield from expand.text(self.shell, redirect.target, substitute)
                text += "\n" if redirect.op == "<<<" else ""
                self._lead(redirect.fd, Document(text.encode("utf-8", "surrogateescape")))
                continue
            fields = yield from expand.fields(self.shell, (redirect.target,), substitute)
            if len(fields) != 1:
                raise Refused("ambiguous redirect" if self.shell.bash else "bad redirection")
            self._one(redirect.fd, redirect.op, fields[0])

    def _one(self, fd: int, op: str, target: str) -> None:
        if op in (">&", "<&"):
            self._duplicate(fd, target)
            return
        end = self._open(op, target)
        self._lead(fd, end)
        if op in ("&>", "&>>"):
            self._lead(2, end.share())

    def _duplicate(self, fd: int, target: str) -> None:
        ends = self.shell.process.ends
        if target == "-":
            self._lead(fd, None)
            return
        moved = target.endswith("-")
        source = target.removesuffix("-")
        if not source.isdigit():
            raise Refused(f"{target}: ambiguous redirect" if self.shell.bash else f"bad fd number: {target}")
        end = ends.get(int(source))
        if end is None:
            raise Refused(f"{target}: Bad file descriptor")
        self._lead(fd, end.share())
        if moved and int(source) != fd:
            self._lead(int(source), None)

    def _open(self, op: str, path: str) -> End:
        process = self.shell.process
        own = _OWN.get(path) or (path.removeprefix("/dev/fd/") if path.startswith("/dev/fd/") else "")
        if own.isdigit():
            end = process.ends.get(int(own))
            if end is None:
                raise Refused(self._text(op, path, "No such file or directory"))
            return end.share()
        if path == "/dev/null":
            return Null()
        files = process.container.files
        try:
            if op == ">" and "noclobber" in self.shell.options and files.exists(path, process):
                raise Refused(
                    f"{path}: cannot overwrite existing file"
                    if self.shell.bash
                    else self._text(op, path, "File exists")
                )
            end = files.open(path, process, _FLAGS[op])
        except FileError as error:
            raise Refused(self._text(op, path, error.text)) from None
        assert isinstance(end, End)
        return end

    def _text(self, op: str, path: str, reason: str) -> str:
        """The message of this shell about a file."""
        if self.shell.bash:
            return f"{path}: {reason}"
        missing = reason == "No such file or directory"
        if op == "<":
            reason = (
                ("No such file" if self.shell.dialect == "dash" else "no such file") if missing else reason
            )
            return (
                f"{'cannot' if self.shell.dialect == 'dash' else 'can' + chr(39) + 't'} open {path}: {reason}"
            )
        if self.shell.dialect == "dash":
            return f"cannot create {path}: {'Directory nonexistent' if missing else reason}"
        return f"can't create {path}: {'nonexistent directory' if missing else reason}"

    def _lead(self, fd: int, end: End | None) -> None:
        ends = self.shell.process.ends
        if fd >= DESCRIPTORS_MAX:
            if end is not None:
                end.close()
            raise Refused(f"{fd}: Bad file descriptor")
        old = ends.pop(fd, None)
        if fd in self.saved:
            if old is not None:
                old.close()
        else:
            self.saved[fd] = old
        if end is not None:
            ends[fd] = end

    def undo(self) -> None:
        """Put the descriptors back; not for a program that has replaced the shell."""
        process = self.shell.process
        keep = self.shell.replaced or process.ended.ready
        for fd, end in self.saved.items():
            if not keep:
                process.close(fd)
                if end is not None:
                    process.ends[fd] = end
            elif end is not None:
                end.close()
        self.saved.clear()

    def keep(self) -> None:
        """Let them last, as `exec` does."""
        for end in self.saved.values():
            if end is not None:
                end.close()
        self.saved.clear()
