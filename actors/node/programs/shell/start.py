"""The command line of a shell: `sh -c`, a file, its input.

Mirrors  POSIX sh(1), bash(1).
Differs  a shell that reads its script from its input reads all of it first; no shell is
         interactive, and `-i` changes nothing.
"""

from __future__ import annotations

from posixpath import basename

from actors.node.programs.ends import receive_all
from actors.node.programs.files.errors import FileError
from actors.node.programs.process import Process
from actors.node.programs.shell.builtins import set_options
from actors.node.programs.shell.interpret import RUNNER, run_text
from actors.node.programs.shell.life import live, replaceable
from actors.node.programs.shell.scan import SOURCE_MAX
from actors.node.programs.shell.state import Shell
from actors.node.programs.waits import Main

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
        end = process.ends.get(0)
        script = (
            ""
            if end is None
            else (yield from receive_all(end, SOURCE_MAX + 1)).decode("utf-8", "surrogateescape")
        )
    shell.arguments = arguments
    return (
        yield from replaceable(process, lambda _: live(shell, lambda: run_text(shell, script, final=True)))
    )
