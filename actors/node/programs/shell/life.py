"""The life of a shell and of the processes that it starts.

Holds: a command in the foreground is waited for deafly: a caught signal runs its trap afterwards;
       functions, `eval`, traps and sourced scripts are at most `DEPTH_MAX` deep.
Mirrors  POSIX shell command language 2.8, 2.12.
Differs  a process that a shell starts takes `START_US` on every machine; a shell
         that cannot start one waits `RETRY_US` first (bash waits longer and longer); functions nest
         only `DEPTH_MAX` deep; the end of a child by a signal is not announced (`Terminated`).
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping

from actors.node.programs.ends import End, pipe, receive
from actors.node.programs.process import NoProcess, Process
from actors.node.programs.shell.parse import parse
from actors.node.programs.shell.quoting import SyntaxFault
from actors.node.programs.shell.scan import NotUnderstood
from actors.node.programs.shell.state import VALUE_MAX, Exit, Fatal, Leave, Return, Run, Shell
from actors.node.programs.waits import PAUSE, Main, Wait
from sim.units import MS, SECOND

START_US = 1 * MS  # fork, execve and the dynamic loader of a small program take about this long
RETRY_US = 1 * SECOND  # before a shell gives up starting a process, so that a fork bomb is slow
FILES_FD = 63  # of the first `<( )`, as in bash
DEPTH_MAX = 40  # each level takes some ten frames of the interpreter, which has a thousand


class Replaced(Exception):
    """Another program runs in place of the shell."""

    def __init__(self, main: Callable[[Process], Main]) -> None:
        super().__init__()
        self.main = main


def live(shell: Shell, body: Callable[[], Run]) -> Main:
    """Run a shell up to its end, with its EXIT trap."""
    code = yield from _ended(shell, body)
    action = shell.traps.pop(0, "")
    if action:
        shell.status = code
        shell.trapping = True
        ended = yield from _ended(shell, lambda: shell.runner.script(shell, action), trap=True)
        code = code if ended < 0 else ended
    return code


_replaceable: set[Process] = set()  # those of which `replaceable` is already at work


def replaceable(process: Process, main: Callable[[Process], Main]) -> Main:
    """Run a program, and those that replace it: one after the other, not one within the other."""
    if process in _replaceable:
        return (yield from main(process))
    _replaceable.add(process)
    try:
        while True:
            try:
                return (yield from main(process))
            except Replaced as replaced:
                main = replaced.main
    finally:
        _replaceable.discard(process)


def _ended(shell: Shell, body: Callable[[], Run], *, trap: bool = False) -> Run:
    try:
        code = yield from body()
        yield from run_traps(shell)
        return -1 if trap else code
    except Exit as left:
        return left.code
    except Return as left:
        return left.code
    except Leave:
        return shell.status
    except Fatal as error:
        if error.text:
            yield from shell.complain(error.text)
        return error.code if error.code is not None else (1 if shell.bash else 2)
    except NotUnderstood as error:
        yield from refuse(shell, error)
        return 127
    except SyntaxFault as error:
        yield from complain_syntax(shell, error)
        return 2


def refuse(shell: Shell, error: SyntaxFault) -> Generator[Wait, None, None]:
    """Say what this shell does not have."""
    shell.process.container.unknown(f"the shell: {error.note}")
    yield from shell.complain(error.note)


def complain_syntax(shell: Shell, error: SyntaxFault) -> Generator[Wait, None, None]:
    """Say that a script is none."""
    shell.line = error.line
    token, note = error.token, error.note
    expands = note.startswith("bad substitution")
    if shell.bash:
        lead = f"{shell.label}: {'' if shell.is_script else '-c: '}line {error.line + note.startswith('unexpected end')}: "
        if expands or note.startswith("unterminated quoted"):
            text = f"unexpected EOF while looking for matching `{token}'" if token else note
        elif note:
            text = f"syntax error: {note.partition(' (')[0]}"
        else:
            text = f"syntax error near unexpected token `{token or 'newline'}'\n{lead}`{error.source}'"
        yield from shell.write(2, f"{lead}{text}\n")
        return
    name = f'"{token}"' if token else "end of file"
    if shell.dialect == "dash":
        end, _, expected = note.partition(" (")
        text = note[:1].upper() + note[1:] if note else f"{name} unexpected"
        if expected:
            text = f"end of file {end.split()[0]} ({expected}"
        yield from shell.complain(f"Syntax error: {text}")
    else:
        yield from shell.complain(
            f"syntax error: {note.partition(':')[0] if expands else note or f'unexpected {name}'}"
        )


def run_nested(shell: Shell, text: str) -> Run:
    """Run the text of `eval`, of a trap or of a sourced script."""
    yield PAUSE
    with Deeper(shell):
        return (yield from shell.runner.script(shell, text))


class Deeper:
    """One level more of functions and the like.  Raises Fatal if it is one too many."""

    def __init__(self, shell: Shell, name: str = "") -> None:
        self.shell, self.name = shell, name

    def __enter__(self) -> None:
        if self.shell.depth >= DEPTH_MAX:
            about = f"{self.name}: " if self.name else ""
            raise Fatal(f"{about}maximum function nesting level exceeded ({DEPTH_MAX})")
        self.shell.depth += 1

    def __exit__(self, *_: object) -> None:
        self.shell.depth -= 1


def run_traps(shell: Shell) -> Generator[Wait, None, None]:
    """Run the traps of the signals that have come."""
    process = shell.process
    while process.pending:
        number = process.pending.pop(0)
        action = shell.traps.get(number)
        if action:
            status = shell.status
            yield from run_nested(shell, action)
            shell.status = status


def fork(
    shell: Shell, body: Callable[[Shell], Run], ends: Mapping[int, End] | None = None
) -> Generator[Wait, None, Process]:
    """Start a subshell.  Raises Fatal if there is no process for it."""
    copy = shell.copy()
    parent = shell.process

    def main(process: Process) -> Main:
        copy.process = process
        yield Wait(until_us=process.now_us + START_US)
        return (yield from replaceable(process, lambda _: live(copy, lambda: body(copy))))

    return (yield from start(shell, main, parent.words, ends))


def start(
    shell: Shell,
    main: Callable[[Process], Main],
    words: tuple[str, ...],
    ends: Mapping[int, End] | None = None,
) -> Generator[Wait, None, Process]:
    """Start a child process.  Raises Fatal if there is no process for it."""
    parent = shell.process
    for last in (False, True):
        try:
            child = parent.child(main, words, ends=ends)
        except NoProcess:
            if not last:
                yield Wait(until_us=parent.now_us + RETRY_US, deaf=True)
                continue
            said = "fork: " if shell.bash else "can't fork: "
            raise Fatal(f"{said}Resource temporarily unavailable", 254 if shell.bash else 2) from None
        child.umask = parent.umask
        return child
    raise AssertionError


def finished(child: Process) -> Run:
    """Wait for a child in the foreground; its exit code."""
    while not child.ended.ready:
        yield Wait((child.ended,), deaf=True)
    return child.ended.code


def substitute(shell: Shell, script: str) -> Generator[Wait, None, str]:
    """The output of a script, without the newlines at its end."""
    sequence = parse(script, shell.bash)
    if not sequence.items:
        return ""
    reading, writing = pipe()

    def body(copy: Shell) -> Run:
        if copy.bash:
            copy.options.discard("errexit")
        return (yield from copy.runner.script(copy, script, final=True))

    try:
        child = yield from fork(shell, body, {**shell.process.ends, 1: writing})
    finally:
        writing.close()
    held = bytearray()
    while data := (yield from receive(reading)):
        held += data
        if len(held) > VALUE_MAX:
            reading.close()
            raise Fatal("command substitution: output too long")
    reading.close()
    shell.substituted = shell.status = yield from finished(child)
    return held.replace(b"\0", b"").decode("utf-8", "surrogateescape").rstrip("\n")


def process_file(shell: Shell, script: str, *, written: bool) -> Generator[Wait, None, str]:
    """Start the script of `<( )` or `>( )`; the path under which the command finds its pipe."""
    parse(script, shell.bash)
    process = shell.process
    reading, writing = pipe()
    own, other = (writing, reading) if written else (reading, writing)

    def body(copy: Shell) -> Run:
        return (yield from copy.runner.script(copy, script, final=True))

    try:
        yield from fork(shell, body, {**process.ends, (0 if written else 1): other})
    except Fatal:
        own.close()
        raise
    finally:
        other.close()
    fd = next(fd for fd in range(FILES_FD, 0, -1) if fd not in process.ends)
    process.ends[fd] = own
    shell.process_files.append(fd)
    return f"/dev/fd/{fd}"
