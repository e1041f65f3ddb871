"""Runs the nodes of a script over a process: lists, pipelines, compound commands.

Holds: every turn of a loop yields.
Mirrors  POSIX shell command language 2.9; bash(1).
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from typing import Any

from actors.node.programs.ends import End, Null, pipe
from actors.node.programs.process import Process, Signal
from actors.node.programs.shell import expand, nodes, patterns
from actors.node.programs.shell.conditions import evaluate_condition
from actors.node.programs.shell.life import finished, fork, process_file, run_nested, run_traps, substitute
from actors.node.programs.shell.nodes import Command, Simple
from actors.node.programs.shell.parse import parse
from actors.node.programs.shell.quoting import SyntaxFault
from actors.node.programs.shell.redirect import Redirection, Refused
from actors.node.programs.shell.simple import run_simple
from actors.node.programs.shell.state import FUNCTIONS_MAX, JOBS_MAX, Exit, Fatal, Leave, Run, Runner, Shell
from actors.node.programs.waits import PAUSE, Wait


def run_text(shell: Shell, text: str, *, final: bool = False) -> Run:
    """Run a script in this shell.  Raises SyntaxFault.

    final: its last command may replace the shell
    """
    try:
        sequence = parse(text, shell.bash)
    except SyntaxFault as error:
        error.source = (text.split("\n")[error.line - 1 : error.line] or [""])[0]
        raise
    if "noexec" in shell.options:
        return 0
    return (yield from run_sequence(shell, sequence, final=final))


def _failed(shell: Shell, status: int) -> Generator[Wait, None, None]:
    """A command has failed outside of a condition."""
    action = shell.traps.get("ERR")
    if action and not shell.trapping:
        shell.trapping = True
        try:
            yield from run_nested(shell, action)
        finally:
            shell.trapping = False
        shell.status = status
    if "errexit" in shell.options:
        raise Exit(status)


def run_sequence(shell: Shell, sequence: nodes.Sequence, *, final: bool = False) -> Run:
    """Lists one after the other.  final: the last command may replace the shell."""
    status = 0
    for item in sequence.items:
        if item.background:
            status = yield from _background(shell, item)
        else:
            last = final and item is sequence.items[-1] and not shell.traps
            status = yield from _and_or(shell, item, final=last)
        shell.status = status
        if shell.process.pending:
            yield from run_traps(shell)
            status = shell.status
    return status


def _background(shell: Shell, item: nodes.AndOr) -> Run:
    first = item.parts[0][1]
    ends = dict(shell.process.ends)
    quiet = Null()
    if "monitor" not in shell.options:
        ends[0] = quiet
    single = len(item.parts) == 1 and len(first.commands) == 1 and not first.negated

    def body(copy: Shell) -> Run:
        if single:
            return (yield from run_command(copy, first.commands[0], final=True))
        return (yield from _and_or(copy, item))

    try:
        child = yield from fork(shell, body, ends)
    finally:
        quiet.close()
    child.ignored |= {Signal.INT, Signal.QUIT}
    if len(shell.jobs) >= JOBS_MAX:
        ended = next((pid for pid, job in shell.jobs.items() if job.ended.ready), None)
        if ended is not None:
            del shell.jobs[ended]
    shell.jobs[child.pid] = child
    shell.last_job = child.pid
    return 0


def _and_or(shell: Shell, item: nodes.AndOr, *, final: bool = False) -> Run:
    status = 0
    parts = item.parts
    for at, (operator, pipeline) in enumerate(parts):
        if (operator == "&&" and status) or (operator == "||" and not status):
            continue
        last = at + 1 == len(parts)
        tested = not last or pipeline.negated
        shell.tested += tested
        try:
            if len(pipeline.commands) == 1:
                alone = final and last and not pipeline.negated
                status = yield from run_command(shell, pipeline.commands[0], final=alone)
                shell.pipe_status = [status]
            else:
                status = yield from _pipeline(shell, pipeline)
        finally:
            shell.tested -= tested
        if pipeline.negated:
            status = int(not status)
        shell.status = status
        if status and not shell.tested and not tested and _counts(pipeline):
            yield from _failed(shell, status)
    return status


def _counts(pipeline: nodes.Pipeline) -> bool:
    """True if a failure of the pipeline is one of its own, not of a command within it."""
    if len(pipeline.commands) > 1:
        return True
    command = pipeline.commands[0]
    if isinstance(command, nodes.Redirected):
        command = command.body
    return isinstance(command, Simple | nodes.Subshell | nodes.Calculate | nodes.Condition)


def _pipeline(shell: Shell, pipeline: nodes.Pipeline) -> Run:
    children: list[Process] = []
    previous: End | None = None
    for command in pipeline.commands:
        ends = dict(shell.process.ends)
        if previous is not None:
            ends[0] = previous
        following = writing = None
        if command is not pipeline.commands[-1]:
            following, writing = pipe()
            ends[1] = writing

        def body(copy: Shell, command: Command = command) -> Run:
            return (yield from run_command(copy, command, final=True))

        try:
            children.append((yield from fork(shell, body, ends)))
        except Fatal:
            if following is not None:
                following.close()
            raise
        finally:
            for end in (previous, writing):
                if end is not None:
                    end.close()
        previous = following
    codes = []
    for child in children:
        codes.append((yield from finished(child)))
    shell.pipe_status = codes
    if "pipefail" in shell.options:
        return next((code for code in reversed(codes) if code), 0)
    return codes[-1]


def run_command(shell: Shell, command: Command, *, final: bool = False) -> Run:
    """One command.  final: it may replace the shell."""
    if isinstance(command, Simple):
        return (yield from run_simple(shell, command, final=final))
    return (yield from _RUN[type(command)](shell, command, final))


def _group(shell: Shell, node: nodes.Group, final: bool) -> Run:
    return (yield from run_sequence(shell, node.body, final=final))


def _subshell(shell: Shell, node: nodes.Subshell, final: bool) -> Run:
    if final:
        return (yield from run_sequence(shell, node.body, final=True))

    def body(copy: Shell) -> Run:
        return (yield from run_sequence(copy, node.body, final=True))

    return (yield from finished((yield from fork(shell, body))))


def _if(shell: Shell, node: nodes.If, final: bool) -> Run:
    for condition, body in node.branches:
        if not (yield from _test(shell, condition)):
            return (yield from run_sequence(shell, body, final=final))
    if node.otherwise is not None:
        return (yield from run_sequence(shell, node.otherwise, final=final))
    return 0


def _test(shell: Shell, condition: nodes.Sequence) -> Run:
    shell.tested += 1
    try:
        return (yield from run_sequence(shell, condition))
    finally:
        shell.tested -= 1


def _turn(shell: Shell, body: nodes.Sequence) -> Generator[Wait, None, tuple[bool, int]]:
    """One turn of a loop: True if the loop continues, and the status."""
    yield PAUSE
    if shell.process.pending:
        yield from run_traps(shell)
    shell.loops += 1
    try:
        return True, (yield from run_sequence(shell, body))
    except Leave as left:
        if left.count > 1:
            raise Leave(left.count - 1, again=left.again) from None
        return left.again, 0
    finally:
        shell.loops -= 1


def _while(shell: Shell, node: nodes.While, final: bool) -> Run:
    del final
    status = 0
    while True:
        shell.loops += 1
        try:
            holds = (yield from _test(shell, node.condition)) == 0
        except Leave as left:
            if left.count > 1:
                raise Leave(left.count - 1, again=left.again) from None
            if not left.again:
                return 0
            yield PAUSE
            continue
        finally:
            shell.loops -= 1
        if holds == node.until:
            return status
        goes_on, status = yield from _turn(shell, node.body)
        if not goes_on:
            return status


def _for(shell: Shell, node: nodes.For, final: bool) -> Run:
    del final
    status = 0
    if node.words is None:
        choices = list(shell.arguments)
    else:
        choices = yield from expand.fields(shell, node.words, substitute)
    for choice in choices:
        shell.put(node.name, choice)
        goes_on, status = yield from _turn(shell, node.body)
        if not goes_on:
            break
    return status


def _count(shell: Shell, node: nodes.Count, final: bool) -> Run:
    del final
    status = 0
    shell.calculate((yield from expand.text(shell, node.first, substitute)))
    while True:
        test = yield from expand.text(shell, node.test, substitute)
        if test.strip() and not shell.calculate(test):
            return status
        goes_on, status = yield from _turn(shell, node.body)
        if not goes_on:
            return status
        shell.calculate((yield from expand.text(shell, node.step, substitute)))


def _case(shell: Shell, node: nodes.Case, final: bool) -> Run:
    value = yield from expand.text(shell, node.word, substitute)
    status, through = 0, False
    for described, body, terminator in node.items:
        found = through
        for word in described:
            found = found or patterns.matches(
                (yield from expand.pattern(shell, word, substitute)),
                value,
                caseless="nocasematch" in shell.options,
            )
        if not found:
            continue
        ends = terminator == ";;"
        status = yield from run_sequence(shell, body, final=final and ends)
        if ends:
            break
        through = terminator == ";&"
    return status


def _function(shell: Shell, node: nodes.Function, final: bool) -> Run:
    del final
    if len(shell.functions) >= FUNCTIONS_MAX and node.name not in shell.functions:
        raise Fatal(f"{node.name}: too many functions")
    shell.functions[node.name] = node.body
    yield from ()
    return 0


def _calculate(shell: Shell, node: nodes.Calculate, final: bool) -> Run:
    del final
    shell.line = node.line
    try:
        return int(not shell.calculate((yield from expand.text(shell, node.expression, substitute))))
    except Fatal as error:
        yield from shell.complain(error.text, "((")
        return 1


def _condition(shell: Shell, node: nodes.Condition, final: bool) -> Run:
    del final
    shell.line = node.line
    return (yield from evaluate_condition(shell, node.words, substitute))


def _redirected(shell: Shell, node: nodes.Redirected, final: bool) -> Run:
    redirection = Redirection(shell)
    files = len(shell.process_files)
    try:
        yield from redirection.apply(node.redirects, substitute)
        return (yield from run_command(shell, node.body, final=final))
    except Refused as refused:
        yield from shell.complain(str(refused))
        return 2 if shell.dialect == "dash" else 1
    finally:
        redirection.undo()
        shell.close_files(files)


_RUN: dict[type, Callable[[Shell, Any, bool], Run]] = {
    nodes.Group: _group,
    nodes.Subshell: _subshell,
    nodes.If: _if,
    nodes.While: _while,
    nodes.For: _for,
    nodes.Count: _count,
    nodes.Case: _case,
    nodes.Function: _function,
    nodes.Calculate: _calculate,
    nodes.Condition: _condition,
    nodes.Redirected: _redirected,
    nodes.Sequence: lambda shell, node, final: run_sequence(shell, node, final=final),
    nodes.AndOr: lambda shell, node, final: _and_or(shell, node, final=final),
    nodes.Pipeline: lambda shell, node, final: _pipeline(shell, node),
}

RUNNER = Runner(run_text, run_command, process_file)
