"""Simple commands: assignments, functions, commands of the shell, programs.

Mirrors  POSIX shell command language 2.9.1; `exec`, `.` and `command` of 2.15.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from contextlib import suppress

from actors.node.programs.files.errors import FileError
from actors.node.programs.lookup import NotRunnable, find, program
from actors.node.programs.process import NoProcess, Process
from actors.node.programs.shell import expand, nodes
from actors.node.programs.shell.builtins import BUILTINS, SPECIAL
from actors.node.programs.shell.life import (
    START_US,
    Deeper,
    Replaced,
    finished,
    run_nested,
    start,
    substitute,
)
from actors.node.programs.shell.nodes import Assignment, Simple
from actors.node.programs.shell.redirect import Redirection, Refused
from actors.node.programs.shell.scan import SOURCE_MAX
from actors.node.programs.shell.state import Exit, Fatal, Return, Run, Shell, Variable
from actors.node.programs.waits import PAUSE, Main, Wait

_BASH_ONLY = frozenset(
    ("declare", "typeset", "shopt", "mapfile", "readarray", "pushd", "popd", "enable", "disown")
)
Builtin = Callable[[Shell, list[str]], Run]


def run_simple(shell: Shell, node: Simple, *, final: bool) -> Run:
    """A simple command.  final: it may replace the shell"""
    shell.line = node.line
    shell.substituted = 0
    files = len(shell.process_files)
    words, arrays = yield from _words(shell, node)
    redirection = Redirection(shell)
    replaces = words[:1] == ["exec"] and "exec" not in shell.functions
    try:
        if not words:
            yield from _assign(shell, node.assignments)
            yield from redirection.apply(node.redirects, substitute)
            return shell.substituted
        prefix = []
        for assignment in node.assignments:
            value = yield from expand.assigned(shell, assignment.value, substitute)
            old = (shell.get(assignment.name) or "") if assignment.append else ""
            prefix.append((assignment.name, old + value))
        yield from _trace(shell, prefix, words)
        yield from redirection.apply(node.redirects, substitute)
        if replaces:
            redirection.keep()
        return (yield from _dispatch(shell, words, prefix, arrays, final=final))
    except Refused as refused:
        code = 2 if shell.dialect == "dash" else 1
        if words and words[0] in SPECIAL and (replaces or not shell.bash):
            raise Fatal(str(refused), code) from None
        yield from shell.complain(str(refused))
        return code
    except Fatal as error:  # its message goes where the command's would
        if error.text:
            yield from shell.complain(error.text)
        raise Fatal("", error.code) from None
    finally:
        redirection.undo()
        if not shell.replaced:
            shell.close_files(files)


def _words(shell: Shell, node: Simple) -> Generator[Wait, None, tuple[list[str], list[Assignment]]]:
    """The fields of a command, and the arrays that it declares."""
    words: list[str] = []
    arrays: list[Assignment] = []
    plain: list[nodes.Word] = []
    for word in node.words:
        if not isinstance(word, Assignment):
            plain.append(word)
            continue
        words += yield from expand.fields(shell, plain, substitute)
        plain = []
        if word.values is not None:
            arrays.append(word)
            words.append(word.name)
            continue
        value = yield from expand.assigned(shell, word.value, substitute)
        index = f"[{word.index}]" if word.index is not None else ""
        words.append(f"{word.name}{index}{'+' if word.append else ''}={value}")
    words += yield from expand.fields(shell, plain, substitute)
    return words, arrays


def _assign(shell: Shell, assignments: tuple[Assignment, ...]) -> Generator[Wait, None, None]:
    for assignment in assignments:
        if assignment.values is not None:
            yield from _assign_array(shell, assignment)
            continue
        value = yield from expand.assigned(shell, assignment.value, substitute)
        if "xtrace" in shell.options:
            yield from _trace(shell, [(assignment.name, value)], [])
        key = None
        if assignment.index is not None:
            key = yield from expand.subscript(shell, assignment.name, assignment.index, substitute)
        variable = shell.variables.get(assignment.name)
        if assignment.append:
            old = shell.get(assignment.name, key) or ""
            if variable is not None and variable.integer:
                value = str(shell.calculate(old) + shell.calculate(value))
            else:
                value = old + value
        shell.put(assignment.name, value, key)


def _assign_array(shell: Shell, assignment: Assignment) -> Generator[Wait, None, None]:
    values: list[tuple[int | str | None, str]] = []
    assert assignment.values is not None
    for index, word in assignment.values:
        if index is None:
            values += [(None, field) for field in (yield from expand.fields(shell, (word,), substitute))]
        else:
            key = yield from expand.subscript(shell, assignment.name, index, substitute)
            values.append((key, (yield from expand.text(shell, word, substitute))))
    shell.put_array(assignment.name, values, append=assignment.append)


def _trace(shell: Shell, prefix: list[tuple[str, str]], words: list[str]) -> Generator[Wait, None, None]:
    if "xtrace" in shell.options:
        shown = [f"{name}={shown_word(value, shell.dialect) if value else ''}" for name, value in prefix]
        lead = shell.get("PS4") or "+ "
        yield from shell.write(
            2, lead + " ".join([*shown, *(shown_word(word, shell.dialect) for word in words)]) + "\n"
        )


def shown_word(word: str, dialect: str) -> str:
    """A word as `set -x` shows it."""
    if dialect == "dash" or (
        word and not any(character in " \t\n'\"\\$`|&;<>()*?[]!{}~#" for character in word)
    ):
        return word
    return expand.quote(word)


def _dispatch(
    shell: Shell, words: list[str], prefix: list[tuple[str, str]], arrays: list[Assignment], *, final: bool
) -> Run:
    """Run a function, a command of the shell, or a program."""
    name, bare = words[0], False
    while name == "command" and name not in shell.functions:
        words = words[1:]
        if not words or words[0].startswith("-"):
            if words[:1] in (["-p"], ["--"]) and len(words) > 1:
                words = words[1:]
            else:
                return (yield from _held(shell, prefix, BUILTINS["command"], words))
        name, bare = words[0], True
    if name in shell.functions and not bare:
        return (
            yield from _held(shell, prefix, lambda _, arguments: _call(shell, name, arguments), words[1:])
        )
    if name == "exec":
        return (yield from _exec(shell, words[1:], prefix))
    if name == "builtin" and shell.bash and len(words) > 1:
        words = words[1:]
        name = words[0]
    if name == "eval":
        text = " ".join(words[1:])
        return (yield from _held(shell, prefix, lambda _, __: run_nested(shell, text), []))
    if name == "." or (name == "source" and shell.bash):
        return (yield from _held(shell, prefix, _source, words[1:]))
    builtin = BUILTINS.get(name)
    if builtin is not None and (shell.bash or name not in _BASH_ONLY):
        status = yield from _held(shell, prefix, builtin, words[1:], keep=name in SPECIAL and not shell.bash)
        for assignment in arrays:
            yield from _assign_array(shell, assignment)
        return status
    return (yield from _external(shell, words, prefix, final=final))


def _held(
    shell: Shell, prefix: list[tuple[str, str]], builtin: Builtin, arguments: list[str], *, keep: bool = False
) -> Run:
    """Run within the shell, with assignments that last only as long."""
    held = {name: shell.variables.get(name) for name, _ in prefix}
    for name, variable in held.items():
        if variable is not None and not keep:
            shell.variables[name] = variable.copy()
    for name, value in prefix:
        shell.put(name, value)
        if not keep:
            shell.export(name)
    try:
        return (yield from builtin(shell, arguments))
    finally:
        if not keep:
            shell.restore(held)


def _call(shell: Shell, name: str, arguments: list[str]) -> Run:
    """Call a function."""
    yield PAUSE
    outer, loops = shell.arguments, shell.loops
    scope: dict[str, Variable | None] = {}
    with Deeper(shell, name):
        shell.arguments, shell.loops = arguments, 0
        shell.scopes.append(scope)
        shell.names.append(name)
        try:
            return (yield from shell.runner.command(shell, shell.functions[name]))
        except Return as left:
            return left.code
        finally:
            shell.restore(shell.scopes.pop())
            shell.names.pop()
            shell.arguments, shell.loops = outer, loops


def _source(shell: Shell, arguments: list[str]) -> Run:
    """Run a script in this shell."""
    if not arguments:
        raise Fatal(".: filename argument required", 2)
    path, process = arguments[0], shell.process
    if "/" not in path:
        with suppress(NotRunnable):
            path = find(process, path)
    try:
        text = process.container.files.read(path, process, SOURCE_MAX + 1).decode("utf-8", "surrogateescape")
    except FileError as error:
        if shell.bash:
            yield from shell.complain(f"{path}: {error.text}")
            return 1
        opened = "cannot" if shell.dialect == "dash" else "can't"
        said = f"{opened} open {path}: {'No such file' if error.code == 'ENOENT' else error.text}"
        raise Fatal(
            f".: {said}" if shell.dialect == "dash" else f".: {said.replace('No such', 'no such')}", 2
        ) from None
    outer = shell.arguments
    if len(arguments) > 1:
        shell.arguments = arguments[1:]
    shell.sourced += 1
    shell.names.append("source")
    shell.sources.append(path)
    try:
        return (yield from run_nested(shell, text))
    except Return as left:
        return left.code
    finally:
        shell.sourced -= 1
        shell.names.pop()
        shell.sources.pop()
        shell.arguments = outer if len(arguments) > 1 else shell.arguments


def _environment(shell: Shell, prefix: list[tuple[str, str]]) -> dict[str, str]:
    return {**shell.process.env, **dict(prefix)}


def _found(shell: Shell, words: list[str], env: dict[str, str]) -> Callable[[Process], Main]:
    """The program of a command.  Raises NotRunnable."""
    process = shell.process
    own, process.env = process.env, env
    path = shell.get("PATH")
    try:
        if path is not None and "PATH" not in env:
            process.env = {**env, "PATH": path}
        if not words[0]:
            raise NotRunnable(127, "not found")
        main: Callable[[Process], Main] = program(process, tuple(words))
        return main
    finally:
        process.env = own


def _not_runnable(shell: Shell, name: str, refused: NotRunnable, command: str = "") -> Run:
    text = refused.text
    if shell.bash and refused.code == 127:
        text = "No such file or directory" if "/" in name else "command not found"
    yield from shell.complain(f"{name}: {text}", command)
    return refused.code


def _external(shell: Shell, words: list[str], prefix: list[tuple[str, str]], *, final: bool) -> Run:
    env = _environment(shell, prefix)
    try:
        main = _found(shell, words, env)
    except NotRunnable as refused:
        return (yield from _not_runnable(shell, words[0], refused))
    if final and not shell.traps:
        raise _replacement(shell, main, words, env)
    process = shell.process

    def started(child: Process) -> Main:
        yield Wait(until_us=child.now_us + START_US)
        return (yield from main(child))

    own, process.env = process.env, env
    try:
        with suppress(NoProcess):
            child = process.child(started, tuple(words))
            child.umask = process.umask
            process.env = own
            return (yield from finished(child))
    finally:
        process.env = own
    return (yield from finished((yield from start(shell, started, tuple(words)))))


def _replacement(
    shell: Shell, main: Callable[[Process], Main], words: list[str], env: dict[str, str]
) -> Replaced:
    """Let a program take the place of the shell."""

    def begins(process: Process) -> Main:
        process.words = tuple(words)
        process.env = env
        process.caught.clear()
        process.pending.clear()
        yield Wait(until_us=process.now_us + START_US)
        return (yield from main(process))

    shell.replaced = True
    return Replaced(begins)


def _exec(shell: Shell, words: list[str], prefix: list[tuple[str, str]]) -> Run:
    if words[:1] == ["--"]:
        words = words[1:]
    if words[:1] == ["-a"] and len(words) > 2:
        words = words[2:]
    if not words:
        for name, value in prefix:
            shell.put(name, value)
        return 0
    env = _environment(shell, prefix)
    try:
        main = _found(shell, words, env)
    except NotRunnable as refused:
        if shell.bash:
            code = yield from _exec_failed(shell, words[0], refused)
        else:
            code = yield from _not_runnable(shell, words[0], refused, "exec")
        raise Exit(code) from None
    raise _replacement(shell, main, words, env)


def _exec_failed(shell: Shell, name: str, refused: NotRunnable) -> Run:
    text = refused.text
    if refused.code == 127:
        text = "No such file or directory" if "/" in name else "not found"
    yield from shell.complain(f"exec: {name}: {text}" if "/" not in name else f"{name}: {text}")
    return refused.code
