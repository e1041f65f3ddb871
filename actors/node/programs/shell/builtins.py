"""The commands that a shell carries out itself, except those that run scripts.

Mirrors  POSIX shell command language 2.15, bash(1) SHELL BUILTIN COMMANDS, busybox shell/ash.c.
Differs  `ulimit` accepts every limit and imposes none; `hash` and `enable` accept their arguments;
         of the options of `shopt`, nocasematch and nullglob have an effect.
"""

from __future__ import annotations

from collections.abc import Callable
from posixpath import normpath

from actors.node.programs import conditions, printing
from actors.node.programs.files.errors import FileError
from actors.node.programs.lookup import NotRunnable, find
from actors.node.programs.shell import expand, processes, reading
from actors.node.programs.shell.conditions import ShellJudge
from actors.node.programs.shell.reading import invalid_name
from actors.node.programs.shell.state import OPTIONS, Exit, Fatal, Leave, Return, Run, Shell, Variable
from sim.patterns import pattern

_DOTALL = 16  # re.DOTALL
_DECLARED = pattern(r"([A-Za-z_][A-Za-z0-9_]*)(?:\[([^]]*)\])?(?:(\+?)=(.*))?$", _DOTALL)
RESERVED = frozenset((
    "if", "then", "elif", "else", "fi", "while", "until", "do", "done", "for", "case", "esac", "in", "function", "{",
    "}", "!", "[[", "]]", "time", "select",
))  # fmt: skip


def _true(_: Shell, __: list[str]) -> Run:
    yield from ()
    return 0


def _false(_: Shell, __: list[str]) -> Run:
    yield from ()
    return 1


def _echo(shell: Shell, arguments: list[str]) -> Run:
    return (yield from _print(shell, printing.echo(arguments, shell.dialect), "echo"))


def _print(shell: Shell, text: str, command: str) -> Run:
    if text and not (yield from shell.write(1, text)):
        full = shell.process.ends.get(1) is not None
        yield from shell.complain(
            f"write error: {'No space left on device' if full else 'Bad file descriptor'}", command
        )
        return 1
    return 0


def _printf(shell: Shell, arguments: list[str]) -> Run:
    target = None
    if arguments[:1] == ["-v"] and len(arguments) > 1:
        target, arguments = arguments[1], arguments[2:]
    if arguments[:1] == ["--"]:
        arguments = arguments[1:]
    if not arguments:
        yield from shell.complain("usage: printf format [arg ...]", "printf")
        return 2
    printed = printing.Printed(arguments[0], arguments[1:], dialect=shell.dialect)
    if target is not None:
        shell.put(target, printed.text)
    elif (yield from _print(shell, printed.text, "printf")):
        return 1
    for error in printed.errors:
        yield from shell.complain(error, "printf")
    return printed.code


def _test(shell: Shell, arguments: list[str], command: str = "test") -> Run:
    try:
        return int(not conditions.test(ShellJudge(shell), arguments))
    except conditions.Wrong as wrong:
        yield from shell.complain(str(wrong), "" if shell.dialect == "ash" and command == "" else command)
        return 2


def _bracket(shell: Shell, arguments: list[str]) -> Run:
    if arguments[-1:] != ["]"]:
        yield from shell.complain("missing `]'" if shell.bash else "missing ]", "[")
        return 2
    return (yield from _test(shell, arguments[:-1], "["))


# --- folders --------------------------------------------------------------------------------


def _cd(shell: Shell, arguments: list[str]) -> Run:
    while arguments and arguments[0] in ("-L", "-P", "--", "-e"):
        arguments = arguments[1:]
    target = arguments[0] if arguments else shell.get("HOME")
    if target is None:
        yield from shell.complain("HOME not set", "cd")
        return 1
    shown = target == "-"
    if shown:
        target = shell.get("OLDPWD") or ""
        if not target:
            yield from shell.complain("OLDPWD not set", "cd")
            return 1
    process = shell.process
    path = (
        normpath(target if target.startswith("/") else f"{process.cwd}/{target}") if target else process.cwd
    )
    path = "/" + path.lstrip("/")
    try:
        inode = process.container.files.lookup(path, process)
        if inode.kind != "d":
            raise FileError("ENOTDIR", path)
        if not inode.allows(process.identity, 1):
            raise FileError("EACCES", path)
    except FileError as error:
        text = {
            "bash": f"{target}: {error.text}", "dash": f"can't cd to {target}", "ash": f"can't cd to {target}: {error.text}",
        }[shell.dialect]  # fmt: skip
        yield from shell.complain(text, "cd")
        return 2 if shell.dialect == "dash" else 1
    shell.put("OLDPWD", process.cwd)
    shell.export("OLDPWD")
    process.cwd = path
    shell.put("PWD", path)
    return (yield from _print(shell, path + "\n", "cd")) if shown else 0


def _pwd(shell: Shell, _: list[str]) -> Run:
    return (yield from _print(shell, shell.process.cwd + "\n", "pwd"))


def _umask(shell: Shell, arguments: list[str]) -> Run:
    process = shell.process
    if arguments and arguments[0].isdigit():
        if arguments[0].strip("01234567"):
            yield from shell.complain(f"{arguments[0]}: octal number out of range", "umask")
            return 1
        process.umask = int(arguments[0][-4:], 8) & 0o777
        return 0
    if arguments[:1] == ["-S"]:
        bits = 0o777 & ~process.umask
        triples = [
            "".join(letter for at, letter in enumerate("rwx") if bits >> shift & 4 >> at)
            for shift in (6, 3, 0)
        ]
        return (yield from _print(shell, "u={},g={},o={}\n".format(*triples), "umask"))
    return (yield from _print(shell, f"{process.umask:04o}\n", "umask"))


# --- variables ------------------------------------------------------------------------------


def _export(shell: Shell, arguments: list[str]) -> Run:
    return (yield from _declared(shell, arguments, "export"))


def _readonly(shell: Shell, arguments: list[str]) -> Run:
    return (yield from _declared(shell, arguments, "readonly"))


def _local(shell: Shell, arguments: list[str]) -> Run:
    if not shell.scopes:
        text = "can only be used in a function" if shell.bash else "not in a function"
        if not shell.bash:
            raise Fatal(f"local: {text}")
        yield from shell.complain(text, "local")
        return 1
    return (yield from _declared(shell, arguments, "local"))


def _declare(shell: Shell, arguments: list[str]) -> Run:
    return (yield from _declared(shell, arguments, "declare"))


def _declared(shell: Shell, arguments: list[str], command: str) -> Run:
    """`export`, `readonly`, `local`, `declare` with options before names."""
    on: set[str] = set()
    off: set[str] = set()
    while arguments and len(arguments[0]) > 1 and arguments[0][0] in "-+":
        option, arguments = arguments[0], arguments[1:]
        if option == "--":
            break
        (on if option[0] == "-" else off).update(option[1:])
    if not arguments or "p" in on:
        return (yield from _list_variables(shell, arguments, command))
    status = 0
    for argument in arguments:
        found = _DECLARED.match(argument)
        if found is None:
            status = yield from invalid_name(shell, argument, command)
            continue
        name, index, append, value = found.groups()
        if "f" in on or "F" in on:
            status |= int(name not in shell.functions)
            continue
        if shell.scopes and (command == "local" or (command == "declare" and "g" not in on)):
            _hide(shell, name)
        variable = shell.variables.setdefault(name, Variable())
        if on & {"a", "A"} and not isinstance(variable.value, dict):
            variable.value = {} if variable.value is None else {0: variable.value}
            variable.associative = "A" in on
        variable.integer = (variable.integer or "i" in on) and "i" not in off
        if value is not None:
            value = (shell.get(name) or "") + value if append else value
            shell.put(name, value, shell.calculate(index) if index is not None else None)
        if command == "readonly" or "r" in on:
            variable.readonly = True
        if (command == "export" and "n" not in on) or "x" in on:
            shell.export(name)
        elif (command == "export" and "n" in on) or "x" in off:
            shell.export(name, exported=False)
    return status


def _hide(shell: Shell, name: str) -> None:
    """A variable of the function in place of the one outside."""
    scope = shell.scopes[-1]
    if name in scope:
        return
    outer = shell.variables.get(name)
    if outer is not None and outer.readonly:
        raise Fatal(f"local: {name}: readonly variable")
    scope[name] = outer
    local = Variable()
    if outer is not None:
        local.exported = outer.exported
        if not shell.bash:  # ash and dash keep the value
            local.value = outer.value
    shell.variables[name] = local


def _list_variables(shell: Shell, names: list[str], command: str) -> Run:
    for name in names or sorted(shell.variables):
        variable = shell.variables.get(name)
        if variable is None:
            yield from shell.complain(f"{name}: not found", command)
            return 1
        if (command == "export" and not variable.exported) or (
            command == "readonly" and not variable.readonly
        ):
            continue
        if shell.bash:
            letters = "".join(
                letter for letter, holds in (
                    ("A" if variable.associative else "a", isinstance(variable.value, dict)), ("i", variable.integer),
                    ("r", variable.readonly), ("x", variable.exported),
                ) if holds
            )  # fmt: skip
            lead = f"declare -{letters or '-'} {name}"
        else:
            lead = f"{command} {name}"
        yield from shell.write(1, lead + _shown(shell, variable) + "\n")
    return 0


def _shown(shell: Shell, variable: Variable) -> str:
    if isinstance(variable.value, dict):
        return "=(" + " ".join(f'[{key}]="{value}"' for key, value in shell.items(variable)) + ")"
    if variable.value is None:
        return ""
    return f'="{variable.value}"' if shell.bash else f"={expand.quote(variable.value)}"


def _unset(shell: Shell, arguments: list[str]) -> Run:
    functions = variables = False
    while arguments and arguments[0] in ("-f", "-v", "-fv", "-n"):
        functions, variables = functions or "f" in arguments[0], variables or "v" in arguments[0]
        arguments = arguments[1:]
    for name in arguments:
        found = _DECLARED.match(name)
        if found is None:
            return (yield from invalid_name(shell, name, "unset"))
        if functions or (not variables and found[1] not in shell.variables):
            shell.functions.pop(name, None)
            continue
        variable = shell.variables.get(found[1])
        index = found[2]
        if index is not None and variable is not None and not variable.associative:
            if index in ("@", "*"):
                shell.unset(found[1])
                continue
            shell.unset(found[1], shell.calculate(index))
        elif variable is not None and variable.readonly and shell.bash:
            yield from shell.complain(f"{name}: cannot unset: readonly variable", "unset")
            return 1
        else:
            shell.unset(found[1], index)
    return 0


def _set(shell: Shell, arguments: list[str]) -> Run:
    if not arguments:
        for name in sorted(shell.variables):
            value = shell.get(name)
            if value is not None:
                yield from shell.write(1, f"{name}={expand.quote(value)}\n")
        return 0
    return (yield from set_options(shell, arguments))


def set_options(shell: Shell, arguments: list[str]) -> Run:
    """Options, then the arguments of the shell, if there are any or `--` is."""
    at = 0
    names = set(OPTIONS.values()) | {"pipefail", "posix", "vi", "emacs", "ignoreeof", "nolog"}
    while at < len(arguments) and len(arguments[at]) > 1 and arguments[at][0] in "-+":
        option = arguments[at]
        at += 1
        if option == "--":
            shell.arguments = arguments[at:]
            return 0
        change = shell.options.add if option[0] == "-" else shell.options.discard
        for letter in option[1:]:
            if letter == "o":
                if at >= len(arguments):
                    for name in sorted(names):
                        yield from shell.write(1, f"{name:<15}\t{'on' if name in shell.options else 'off'}\n")
                    return 0
                if arguments[at] not in names:
                    yield from shell.complain(
                        f"{arguments[at]}: invalid option name"
                        if shell.bash
                        else f"illegal option {option[0]}o {arguments[at]}",
                        "set",
                    )
                    return 2
                change(arguments[at])
                at += 1
            elif letter in OPTIONS or (shell.bash and letter in "EHPTkpt"):
                change(OPTIONS.get(letter, letter))
            else:
                text = (
                    f"{option[0]}{letter}: invalid option"
                    if shell.bash
                    else f"illegal option {option[0]}{letter}"
                )
                if not shell.bash:
                    raise Fatal(f"set: {text}")
                yield from shell.complain(text, "set")
                return 2
    if at < len(arguments) and arguments[at] == "-":
        shell.options -= {"xtrace", "verbose"}
        at += 1
    if at < len(arguments):
        shell.arguments = arguments[at:]
    return 0


def _shift(shell: Shell, arguments: list[str]) -> Run:
    count = _count(shell, arguments, "shift", 1)
    if count > len(shell.arguments):
        if not shell.bash:
            raise Fatal("shift: can't shift that many")
        return 1
    del shell.arguments[:count]
    yield from ()
    return 0


def _count(shell: Shell, arguments: list[str], command: str, default: int) -> int:
    """The number that is the first argument.  Raises Fatal."""
    if not arguments:
        return default
    text = arguments[0]
    if text.lstrip("+-").isdigit() and len(text) < 20:
        return int(text)
    raise Fatal(
        f"{command}: {text}: numeric argument required"
        if shell.bash
        else f"{command}: Illegal number: {text}",
        2,
    )


# --- flow -----------------------------------------------------------------------------------


def _return(shell: Shell, arguments: list[str]) -> Run:
    if not shell.scopes and not shell.sourced and shell.bash:
        yield from shell.complain("can only `return' from a function or sourced script", "return")
        return 2
    raise Return(_count(shell, arguments, "return", shell.status) & 255)


def _exit(shell: Shell, arguments: list[str]) -> Run:
    yield from ()
    raise Exit(_count(shell, arguments, "exit", shell.status) & 255)


def _break(shell: Shell, arguments: list[str]) -> Run:
    return (yield from _leave(shell, arguments, "break"))


def _continue(shell: Shell, arguments: list[str]) -> Run:
    return (yield from _leave(shell, arguments, "continue"))


def _leave(shell: Shell, arguments: list[str], command: str) -> Run:
    count = _count(shell, arguments, command, 1)
    if not shell.loops:
        if shell.bash:
            yield from shell.complain("only meaningful in a `for', `while', or `until' loop", command)
        return 0
    if count < 1:
        raise Fatal(f"{command}: {count}: loop count out of range", 1)
    raise Leave(min(count, shell.loops), again=command == "continue")


# --- the rest -------------------------------------------------------------------------------


def _let(shell: Shell, arguments: list[str]) -> Run:
    value = 0
    for argument in arguments:
        value = shell.calculate(argument)
    yield from ()
    return int(not value)


def _type(shell: Shell, arguments: list[str]) -> Run:
    kinds = shell.bash and arguments[:1] == ["-t"]
    status = 0
    for name in arguments[1:] if kinds or arguments[:1] in (["-p"], ["-a"]) else arguments:
        kind, path = describe(shell, name)
        if kinds:
            status |= int(not kind)
            yield from shell.write(1, f"{kind}\n" if kind else "")
        elif not kind:
            status = 1 if shell.bash else 127
            if shell.bash:
                yield from shell.complain(f"{name}: not found", "type")
            else:
                yield from shell.write(1, f"{name}: not found\n")
        else:
            yield from shell.write(1, f"{name} is {_described(shell, name, kind, path)}\n")
    return status


def _described(shell: Shell, name: str, kind: str, path: str) -> str:
    special = name in SPECIAL and not shell.bash
    return {
        "keyword": "a shell keyword", "function": "a function" if shell.bash else "a shell function",
        "builtin": "a special shell builtin" if special else "a shell builtin", "file": path,
    }[kind]  # fmt: skip


def describe(shell: Shell, name: str) -> tuple[str, str]:
    """What a name means as a command: its kind, "" if nothing, and its path."""
    if name in RESERVED:
        return "keyword", ""
    if name in shell.functions:
        return "function", ""
    if name in BUILTINS or name in ("exec", "eval", ".", "source"):
        return "builtin", ""
    try:
        return "file", find(shell.process, name)
    except NotRunnable:
        return "", ""


def _command(shell: Shell, arguments: list[str]) -> Run:
    """`command -v` and `command -V`."""
    if not arguments:
        return 0
    status = 0
    for name in arguments[1:]:
        kind, path = describe(shell, name)
        if not kind:
            status = 1 if shell.bash else 127
            if arguments[0] == "-V":
                yield from shell.complain(f"{name}: not found", "command")
        elif arguments[0] == "-V":
            yield from shell.write(1, f"{name} is {_described(shell, name, kind, path)}\n")
        else:
            yield from shell.write(1, f"{path or name}\n")
    return status


def _shopt(shell: Shell, arguments: list[str]) -> Run:
    """Options of bash alone; they are held among the others."""
    yield from ()
    letters = "".join(one[1:] for one in arguments if one.startswith("-"))
    names = [one for one in arguments if not one.startswith("-")]
    if "s" in letters:
        shell.options.update(names)
    elif "u" in letters:
        shell.options.difference_update(names)
    else:
        for name in () if "q" in letters else names:
            yield from shell.write(1, f"{name:<15}\t{'on' if name in shell.options else 'off'}\n")
        return int(not all(name in shell.options for name in names))
    return 0


def _times(shell: Shell, _: list[str]) -> Run:
    yield from shell.write(1, "0m0.000s 0m0.000s\n0m0.000s 0m0.000s\n")
    return 0


def _ulimit(shell: Shell, arguments: list[str]) -> Run:
    if not arguments or all(one.startswith("-") for one in arguments):
        limit = "1048576" if "-n" in arguments else "unlimited"
        yield from shell.write(1, f"{limit}\n")
    return 0


# Those after which ash and dash keep assignments, and end at an error.
SPECIAL = frozenset(
    (
        ":",
        ".",
        "break",
        "continue",
        "eval",
        "exec",
        "exit",
        "export",
        "readonly",
        "return",
        "set",
        "shift",
        "times",
        "trap",
        "unset",
    )
)
BUILTINS: dict[str, Callable[[Shell, list[str]], Run]] = {
    ":": _true, "true": _true, "false": _false, "echo": _echo, "printf": _printf, "test": _test, "[": _bracket,
    "cd": _cd, "pwd": _pwd, "umask": _umask, "export": _export, "readonly": _readonly, "local": _local,
    "declare": _declare, "typeset": _declare, "unset": _unset, "set": _set, "shift": _shift, "return": _return,
    "exit": _exit, "break": _break, "continue": _continue, "read": reading.read, "getopts": reading.getopts, "mapfile": reading.read_array, "readarray": reading.read_array, "let": _let,
    "type": _type, "command": _command, "times": _times, "ulimit": _ulimit, "hash": _true, "shopt": _shopt,
    "enable": _true, "trap": processes.trap, "wait": processes.wait, "kill": processes.kill, "jobs": processes.jobs,
}  # fmt: skip
