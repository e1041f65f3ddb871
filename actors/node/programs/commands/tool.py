"""What commands have in common: options, input by lines, buffered output, errors, other programs.

A command is a generator over a `Tool`; `command` makes a program of it, which ends as tools do if
it cannot write or is used wrongly.

Mirrors  getopt_long(3); error texts of GNU coreutils 9.1 and busybox 1.35 where they differ.
Differs  busybox prints the usage of the command after a wrong option, here only its first line; a
         line of input longer than `LINE_MAX` is cut into several.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping, Sequence

from actors.node.programs.ends import BrokenPipe, End, receive, send
from actors.node.programs.files.errors import TEXTS, FileError
from actors.node.programs.files.handles import Open
from actors.node.programs.files.tree import Tree
from actors.node.programs.lookup import NOT_EXECUTABLE, NotRunnable, program
from actors.node.programs.network.sockets import SocketError
from actors.node.programs.process import NoProcess, Process
from actors.node.programs.waits import PAUSE, Main, Wait

CHUNK = 65536  # bytes of a read or a write, as much as a pipe holds
LINE_MAX = 65536
INPUT_MAX = 16 << 20  # bytes of all that a command such as `sort` keeps

# The commands of busybox that say "can't open" of an input.
_CANNOT = ("cat", "md5sum", "nl", "sha1sum", "sha256sum", "sha512sum", "tail", "tee", "uniq")

Steps = Generator[Wait, None, None]


class Failed(Exception):
    """A command gives up.  text: what it prints after its name; code: its exit code"""

    def __init__(self, text: str, code: int = 1) -> None:
        super().__init__(text, code)
        self.text = text
        self.code = code


class Usage(Failed):
    """A command was used wrongly."""


def to_bytes(text: str) -> bytes:
    """An argument as bytes."""
    return text.encode("utf-8", "surrogateescape")


def to_text(data: bytes) -> str:
    """Bytes as they are in arguments and names."""
    return data.decode("utf-8", "surrogateescape")


class Options:
    """Options that were given, in order, and the operands after them."""

    __slots__ = ("given", "rest")

    def __init__(self) -> None:
        self.given: list[tuple[str, str]] = []
        self.rest: list[str] = []

    def __contains__(self, name: str) -> bool:
        return any(given == name for given, _ in self.given)

    def last(self, name: str, default: str = "") -> str:
        """The argument that was given last."""
        found = self.all(name)
        return found[-1] if found else default

    def all(self, name: str) -> list[str]:
        """The arguments of an option, in order."""
        return [value for given, value in self.given if given == name]

    def latest(self, names: str) -> str:
        """The one of several options that was given last; "" if none."""
        found = [given for given, _ in self.given if given in names]
        return found[-1] if found else ""


class Tool:
    """One run of a command.

    name: as it was called; args: the words after it
    busybox: True for busybox' texts, False for GNU's
    code: the exit code so far
    """

    __slots__ = ("_held", "_opened", "_size", "args", "busybox", "code", "files", "name", "process")

    def __init__(self, process: Process) -> None:
        self.process = process
        self.name = process.words[0].rsplit("/", 1)[-1]
        self.args = process.words[1:]
        self.files: Tree = process.container.files
        self.busybox = self.files.busybox
        self.code = 0
        self._held: list[bytes] = []
        self._opened: list[End] = []
        self._size = 0

    @property
    def dialect(self) -> str:
        """The texts of a command that shells have too: busybox has one for both."""
        return "ash" if self.busybox else "gnu"

    def has_terminal(self, fd: int) -> bool:
        """True if a descriptor leads to a terminal."""
        end = self.process.ends.get(fd)
        return end is not None and end.terminal

    # --- options ----------------------------------------------------------------------------------

    def options(self, spec: str, longs: Mapping[str, str] | None = None, *, code: int = 1) -> Options:
        """Read the options.  Raises Usage.

        spec: letters, one with a colon has an argument; "+" in front: the first operand ends them
        longs: long name -> letter; code: the exit code of a wrong option
        """
        found, words = Options(), list(self.args)
        first_ends = spec.startswith("+")
        while words:
            word = words.pop(0)
            if word == "--":
                found.rest += words
                break
            if word.startswith("--") and longs is not None:
                self._long(word[2:], spec, longs, found, words, code)
            elif len(word) > 1 and word[0] == "-":
                self._letters(word[1:], spec, found, words, code)
            else:
                found.rest.append(word)
                if first_ends:
                    found.rest += words
                    break
        return found

    def _long(
        self, word: str, spec: str, longs: Mapping[str, str], found: Options, words: list[str], code: int
    ) -> None:
        name, equals, value = word.partition("=")
        names = [one for one in longs if one == name] or [one for one in longs if one.startswith(name)]
        if not names:
            self.process.container.missing(f"{self.name} has no option --{name}")
            raise Usage(f"unrecognized option '--{name}'", code)
        letter = longs[names[0]]
        if _has_value(letter, spec) and not equals:
            if not words:
                raise Usage(f"option '--{names[0]}' requires an argument", code)
            value = words.pop(0)
        found.given.append((letter, value))

    def _letters(self, letters: str, spec: str, found: Options, words: list[str], code: int) -> None:
        for at, letter in enumerate(letters):
            if letter not in spec or letter in ":+":
                self.process.container.missing(f"{self.name} has no option -{letter}")
                raise Usage(f"invalid option -- '{letter}'", code)
            if _has_value(letter, spec):
                value = letters[at + 1 :]
                if not value:
                    if not words:
                        raise Usage(f"option requires an argument -- '{letter}'", code)
                    value = words.pop(0)
                found.given.append((letter, value))
                return
            found.given.append((letter, ""))

    # --- output -----------------------------------------------------------------------------------

    def write(self, data: bytes | str) -> Steps:
        """Print to standard output, sooner or later."""
        if isinstance(data, str):
            data = to_bytes(data)
        self._held.append(data)
        self._size += len(data)
        if self._size >= CHUNK:
            yield from self.flush()

    def flush(self) -> Steps:
        """Print now what has been held.  Raises Failed."""
        data = b"".join(self._held)
        self._held, self._size = [], 0
        if not data:
            return
        end = self.process.ends.get(1)
        if end is None:
            raise Failed(f"write error: {TEXTS['EBADF']}")
        yield PAUSE
        try:
            yield from send(end, data)
        except FileError as error:
            raise Failed(f"write error: {error.text}") from None

    def complain(self, text: str, code: int = 1) -> Steps:
        """Print an error after the name of the command, and remember the exit code."""
        self.code = code
        yield from self.warn(f"{self.name}: {text}\n")

    def warn(self, text: str) -> Steps:
        """Print to standard error what is printed so far to standard output comes first."""
        yield from self.flush()
        end = self.process.ends.get(2)
        if end is not None:
            try:
                yield from send(end, to_bytes(text))
            except (BrokenPipe, FileError):
                return

    # --- input ------------------------------------------------------------------------------------

    def opened(self, path: str) -> End:
        """A file for reading, or standard input for "-"; to be closed.  Raises FileError."""
        if path == "-":
            end = self.process.ends.get(0)
            if end is None:
                raise FileError("EBADF", path)
            end.share()
        elif self.files.lookup(path, self.process).kind == "d":
            raise FileError("EISDIR", path)
        else:
            end = self.files.open(path, self.process, Open.READ)
        self._opened.append(end)
        return end

    def keep(self, end: End) -> None:
        """Close an end that was made, at the end of the command at the latest."""
        self._opened.append(end)

    def close(self, end: End) -> None:
        """Close what `opened` has opened."""
        self._opened.remove(end)
        end.close()

    def close_all(self) -> None:
        """Close what is still open: a process may end at each of its waits."""
        while self._opened:
            self._opened.pop().close()

    def inputs(self, paths: Sequence[str], visit: Callable[[str, Lines], Main | Steps]) -> Steps:
        """Visit each input in turn; one that cannot be read is reported."""
        for path in paths or ("-",):
            try:
                end = self.opened(path)
            except FileError as error:
                yield from self.complain(self.unreadable(path, error))
                continue
            try:
                yield from visit(path, Lines(end, self.flush))
            except FileError as error:
                yield from self.complain(f"{path}: {error.text}")
            self.close(end)

    def unreadable(self, path: str, error: FileError) -> str:
        """The text for an input that cannot be opened."""
        if error.code == "EISDIR":
            return f"read error: {error.text}" if self.busybox else f"{path}: {error.text}"
        if self.busybox:
            return f"can't open '{path}': {error.text}" if self.name in _CANNOT else f"{path}: {error.text}"
        quoted = f"cannot open '{path}' for reading" if self.name in ("head", "tail") else path
        lead = {"sort": "cannot read: ", "sed": "can't read "}.get(self.name, "")
        return f"{lead}{quoted}: {error.text}"

    def everything(self, paths: Sequence[str], enough: int = 0) -> Generator[Wait, None, bytes]:
        """The bytes of all inputs, at most `INPUT_MAX`.

        enough: no more is read after so many bytes; 0: all
        """
        held = bytearray()

        def visit(_: str, lines: Lines) -> Steps:
            while not enough or len(held) < enough:
                data = yield from lines.chunk(min(CHUNK, enough - len(held)) if enough else CHUNK)
                if not data:
                    return
                held.extend(data[: max(0, INPUT_MAX - len(held))])

        yield from self.inputs(paths, visit)
        return bytes(held)

    # --- other programs ---------------------------------------------------------------------------

    def run(self, words: Sequence[str], ends: Mapping[int, End] | None = None) -> Main:
        """Run another program, and wait for it; returns its exit code."""
        yield from self.flush()
        child = yield from self.started(words, ends)
        if child is None:
            return self.code
        while not child.ended.ready:
            yield Wait((child.ended,))
        return child.ended.code

    def started(
        self, words: Sequence[str], ends: Mapping[int, End] | None = None
    ) -> Generator[Wait, None, Process | None]:
        """Start another program; None, with `code` set, if that is not possible."""
        try:
            return self.process.child(program(self.process, tuple(words)), tuple(words), ends=ends)
        except NotRunnable as reason:
            yield from self.not_run(words[0], reason)
        except NoProcess:
            yield from self.complain("can't fork: Resource temporarily unavailable", NOT_EXECUTABLE)
        return None

    def not_run(self, name: str, reason: NotRunnable) -> Steps:
        """Report that a program cannot be run."""
        text = TEXTS["ENOENT"] if reason.text == "not found" else reason.text
        what = f"can't execute '{name}'" if self.busybox else f"failed to run command '{name}'"
        if self.name == "xargs":
            what = name
        elif self.name == "env" and not self.busybox:
            what = f"'{name}'"
        yield from self.complain(f"{what}: {text}", reason.code)


def _has_value(letter: str, spec: str) -> bool:
    at = spec.find(letter)
    return at >= 0 and spec[at + 1 : at + 2] == ":"


class Lines:
    """The input of a command, by lines or by chunks."""

    __slots__ = ("_before_wait", "_ended", "_rest", "end")

    def __init__(self, end: End, before_wait: Callable[[], Steps] | None = None) -> None:
        """before_wait: prints what is held, called before input is waited for."""
        self.end = end
        self._before_wait = before_wait
        self._rest = b""
        self._ended = False

    def chunk(self, size: int = CHUNK) -> Generator[Wait, None, bytes]:
        """The next bytes; b"" at the end."""
        if self._rest:
            data, self._rest = self._rest[:size], self._rest[size:]
            return data
        return (yield from self._received(size))

    def _received(self, size: int) -> Generator[Wait, None, bytes]:
        yield PAUSE
        if self._before_wait is not None and not self.end.readable.ready:
            yield from self._before_wait()
        return (yield from receive(self.end, size))

    def line(self, stop: bytes = b"\n") -> Generator[Wait, None, bytes]:
        """The next line with its end; without one if the input ends there; b"" after the last."""
        while True:
            at = self._rest.find(stop)
            if at < 0 and len(self._rest) < LINE_MAX and not self._ended:
                data = yield from self._received(CHUNK)
                self._rest += data
                self._ended = not data
                continue
            at = min(at + 1, LINE_MAX) if at >= 0 else LINE_MAX
            line, self._rest = self._rest[:at], self._rest[at:]
            return line


def command(run: Callable[[Tool], Main]) -> Callable[[Process], Main]:
    """A program of a command."""

    def main(process: Process) -> Main:
        tool = Tool(process)
        try:
            code = yield from run(tool)
            yield from tool.flush()
            return code
        except Failed as failure:
            yield from _report(tool, failure)
            return failure.code
        except FileError as error:
            yield from tool.complain(f"{error.path}: {error.text}" if error.path else error.text)
            return 1
        except SocketError as error:
            yield from tool.complain(error.text)
            return 1
        except (ValueError, OverflowError):  # of a word that should be a number
            yield from tool.complain("invalid number")
            return 1
        finally:
            tool.close_all()

    return main


def _report(tool: Tool, failure: Failed) -> Steps:
    try:
        if not (tool.busybox and isinstance(failure, Usage)) or failure.text.startswith(
            ("option", "unrecognized:", "unrecognized option", "invalid option")
        ):
            yield from tool.complain(failure.text)
    except Failed:  # standard output cannot be written either
        return
    if isinstance(failure, Usage):
        name = tool.name
        if not tool.busybox:
            yield from tool.warn(f"Try '{name} --help' for more information.\n")
        else:
            yield from tool.warn(f"BusyBox v1.35.0 multi-call binary.\n\nUsage: {name}\n")
