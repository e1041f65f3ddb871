"""The command line of a shell: `sh -c`, a file, its input.

Mirrors  POSIX sh(1), bash(1).
Differs  a shell with a terminal as its input shows a prompt, but has no history, no job control
         and no editing of lines; `-i` changes nothing.
"""

from __future__ import annotations

from posixpath import basename

from actors.node.programs.files.errors import FileError
from actors.node.programs.process import Process
from actors.node.programs.shell.builtins import set_options
from actors.node.programs.shell.interpret import RUNNER, run_text
from actors.node.programs.shell.life import complain_syntax, live, replaceable
from actors.node.programs.shell.quoting import SyntaxFault
from actors.node.programs.shell.reading import read_line
from actors.node.programs.shell.scan import SOURCE_MAX, is_complete
from actors.node.programs.shell.state import Fatal, Shell
from actors.node.programs.waits import Main

_OFTEN_MAX = 8192  # characters of a command up to which each further line is looked at
_TAKEN = ("--login", "--norc", "--noprofile", "--posix", "--noediting", "-l", "-i", "-s")


def run(process: Process) -> Main:
    """The program of sh, ash, dash and bash."""
    called = process.words[0] if process.words else "sh"
    own = basename(called).lstrip("-")
    shell = Shell(process, own if own in ("bash", "dash") else "ash", called, RUNNER)
    arguments = list(process.words[1:])
    options: list[str] = []
    command = piped = False
    while arguments and len(arguments[0]) > 1 and arguments[0][0] in "-+":
        option = arguments.pop(0)
        if option == "--":
            break
        if option in _TAKEN:
            piped = piped or option == "-s"
            continue
        if option[0] == "-" and "c" in option[1:]:
            command = True
            option = option.replace("c", "", 1)
        option = option[0] + "".join(letter for letter in option[1:] if letter not in "lis")
        if len(option) > 1:
            options.append(option)
            if option[-1] == "o" and arguments:
                options.append(arguments.pop(0))
    if options and (code := (yield from set_options(shell, options))):
        return code
    if command and not arguments:
        text = "-c: option requires an argument" if shell.bash else "-c requires an argument"
        yield from shell.write(2, f"{shell.label}: {text}\n")
        return 2
    if command:
        script = arguments.pop(0)
        if arguments:
            shell.name = shell.label = arguments.pop(0)
    elif arguments and not piped:
        path = arguments.pop(0)
        shell.name, shell.is_script = path, True
        if shell.bash or shell.dialect == "dash":
            shell.label = path
        try:
            script = process.container.files.read(path, process, SOURCE_MAX + 1).decode(
                "utf-8", "surrogateescape"
            )
        except FileError as error:
            missing = "cannot open {}: No such file" if shell.dialect == "dash" else "can't open '{}': {}"
            text = f"{path}: {error.text}" if shell.bash else missing.format(path, error.text)
            lead = f"{called}: " if shell.dialect != "dash" else f"{called}: 0: "
            yield from shell.write(2, f"{lead}{text}\n")
            return 127 if error.code == "ENOENT" and shell.bash else 126 if shell.bash else 2
        shell.label = path
    else:
        shell.arguments = arguments
        return (yield from replaceable(process, lambda _: live(shell, lambda: _input(shell))))
    shell.arguments = arguments
    return (
        yield from replaceable(process, lambda _: live(shell, lambda: run_text(shell, script, final=True)))
    )


def _input(shell: Shell) -> Main:
    """Run the commands of the input, each as soon as its last line has come."""
    end = shell.process.ends.get(0)
    if end is None:
        return 0
    output = shell.process.ends.get(2) if shell.process.parent is None else None
    terminal = end.terminal or (output is not None and output.terminal)
    held, check_at = "", 0
    while True:
        if terminal:
            yield from shell.write(2, _prompt(shell, again=bool(held)))
        data, ended = yield from read_line(end, b"\n", SOURCE_MAX, None, raw=True)
        held += data.decode("utf-8", "surrogateescape") + ("" if ended else "\n")
        if not ended and (len(held) < check_at or not is_complete(held)):
            # a long command is looked at ever more rarely, so that its length costs no square
            check_at = len(held) + max(0, len(held) - _OFTEN_MAX) // 4
            continue
        text, held, check_at = held, "", 0
        try:
            if text.strip():
                shell.status = yield from run_text(shell, text)
        except (Fatal, SyntaxFault) as error:
            if not terminal:
                raise
            shell.status = 2
            if isinstance(error, SyntaxFault):
                yield from complain_syntax(shell, error)
            else:
                yield from shell.complain(error.text)
        if ended:
            return shell.status


def _prompt(shell: Shell, *, again: bool) -> str:
    """What a terminal shows before a line of input."""
    given = shell.get("PS2" if again else "PS1")
    sign = "#" if shell.process.identity.uid == 0 else "$"
    if given is None:
        given = (
            "> "
            if again
            else "bash-5.2\\$ "
            if shell.bash
            else "\\w \\$ "
            if shell.dialect == "ash"
            else "\\$ "
        )
    home, cwd = shell.get("HOME") or "", shell.process.cwd
    cwd = "~" + cwd[len(home) :] if home not in ("", "/") and (cwd + "/").startswith(home + "/") else cwd
    host = shell.process.container.hostname
    return (
        given.replace("\\w", cwd)
        .replace("\\h", host)
        .replace("\\$", sign)
        .replace("\\u", shell.get("USER") or "root")
    )
