"""`trap`, `wait`, `kill`, `jobs`: signals and processes in the background.

Mirrors  POSIX shell command language 2.14; busybox ash's and bash's messages.
"""

from __future__ import annotations

from actors.node.programs.process import KILLED, Process, Signal
from actors.node.programs.shell.state import Run, Shell
from actors.node.programs.waits import Wait

# Signals by Linux' numbers, also those that nothing here sends.
NAMES = {
    1: "HUP", 2: "INT", 3: "QUIT", 4: "ILL", 5: "TRAP", 6: "ABRT", 7: "BUS", 8: "FPE", 9: "KILL", 10: "USR1",
    11: "SEGV", 12: "USR2", 13: "PIPE", 14: "ALRM", 15: "TERM", 16: "STKFLT", 17: "CHLD", 18: "CONT", 19: "STOP",
    20: "TSTP", 21: "TTIN", 22: "TTOU", 23: "URG", 24: "XCPU", 25: "XFSZ", 26: "VTALRM", 27: "PROF", 28: "WINCH",
    29: "IO", 30: "PWR", 31: "SYS",
}  # fmt: skip
_NUMBERS = {name: number for number, name in NAMES.items()}


def signal_number(text: str) -> int | None:
    """The number of a signal by its name or number."""
    if text.isdigit() and len(text) < 4:
        return int(text) if int(text) <= 64 else None
    name = text.upper().removeprefix("SIG")
    return 0 if name == "EXIT" else _NUMBERS.get(name)


def trap(shell: Shell, arguments: list[str]) -> Run:
    """Say what to do at a signal, at the end, after a failure."""
    if arguments[:1] == ["--"]:
        arguments = arguments[1:]
    if not arguments or arguments[0] == "-p":
        for held, action in shell.traps.items():
            name = held if isinstance(held, str) else "EXIT" if not held else NAMES.get(held, str(held))
            name = f"SIG{name}" if shell.bash and isinstance(held, int) and held else name
            yield from shell.write(1, f"trap -- {_quote(action)} {name}\n")
        return 0
    if arguments[0] == "-l":
        yield from shell.write(1, " ".join(NAMES.values()) + "\n")
        return 0
    action, conditions = arguments[0], arguments[1:]
    if not conditions or (action.isdigit() and len(arguments) > 1):
        action, conditions = "-", arguments
    status = 0
    for condition in conditions:
        key: int | str | None = (
            "ERR" if condition.upper() == "ERR" and shell.bash else signal_number(condition)
        )
        if condition.upper() in ("DEBUG", "RETURN") and shell.bash:
            continue
        if key is None:
            text = f"{condition}: invalid signal specification" if shell.bash else (
                f"{condition}: bad trap" if shell.dialect == "dash" else f"{condition}: invalid signal specification"
            )  # fmt: skip
            yield from shell.complain(text, "trap")
            status = 1
            continue
        _set_trap(shell, key, action)
    return status


def _quote(text: str) -> str:
    return "'" + text.replace("'", "'\\''") + "'"


def _set_trap(shell: Shell, key: int | str, action: str) -> None:
    process = shell.process
    if action == "-":
        shell.traps.pop(key, None)
    else:
        shell.traps[key] = action
    if not isinstance(key, int) or key in (0, Signal.KILL, Signal.STOP):
        return
    process.caught.discard(key)
    process.ignored -= {key}
    if action == "":
        process.ignored |= {key}
    elif action != "-":
        process.caught.add(key)


def _job(shell: Shell, text: str) -> Process | None:
    """A process in the background by its number or as `%1`."""
    jobs = list(shell.jobs.values())
    if text in ("%", "%%", "%+"):
        return jobs[-1] if jobs else None
    number = text.lstrip("%")
    if not number.isdigit() or len(number) > 9:
        return None
    if text[0] == "%":
        return jobs[int(number) - 1] if 0 < int(number) <= len(jobs) else None
    return shell.jobs.get(int(number))


def wait(shell: Shell, arguments: list[str]) -> Run:
    """Wait for processes in the background; a trapped signal ends it with 128 and its number."""
    any_one = arguments[:1] == ["-n"]
    arguments = [one for one in arguments if not one.startswith("-")]
    chosen: list[Process | None] = [_job(shell, one) for one in arguments] or list(shell.jobs.values())
    status = 0
    process = shell.process
    if any_one and chosen:
        sources = tuple(child.ended for child in chosen if child is not None)
        while not any(source.ready for source in sources):
            yield Wait(sources)
            if process.pending:
                return KILLED + process.pending[0]
        ended = next(child for child in chosen if child is not None and child.ended.ready)
        shell.jobs.pop(ended.pid, None)
        return ended.ended.code
    for name, child in zip(arguments or [""] * len(chosen), chosen, strict=True):
        if child is None:
            if shell.bash and name.isdigit():
                yield from shell.complain(f"pid {name} is not a child of this shell", "wait")
            status = 127
            continue
        while not child.ended.ready:
            yield Wait((child.ended,))
            if process.pending:
                return KILLED + process.pending[0]
        status = child.ended.code if arguments else 0
        if not arguments or not shell.bash:
            shell.jobs.pop(child.pid, None)
    return status


def kill(shell: Shell, arguments: list[str]) -> Run:
    """Send a signal."""
    number: int | None = int(Signal.TERM)
    if arguments[:1] == ["-l"]:
        return (yield from _list_signals(shell, arguments[1:]))
    if arguments[:1] in (["-s"], ["-n"]) and len(arguments) > 1:
        number, arguments = signal_number(arguments[1]), arguments[2:]
    elif arguments and len(arguments[0]) > 1 and arguments[0][0] == "-" and arguments[0] != "--":
        name = arguments[0][1:]
        number, arguments = signal_number(name), arguments[1:]
    if arguments[:1] == ["--"]:
        arguments = arguments[1:]
    if number is None or not arguments:
        yield from shell.complain(
            "invalid signal specification" if number is None else "usage: kill [-s signal] pid", "kill"
        )
        return 1 if number is None else 2
    status = 0
    for text in arguments:
        status |= yield from _send(shell, text, number)
    return status


def _list_signals(shell: Shell, arguments: list[str]) -> Run:
    if not arguments:
        yield from shell.write(1, "\n".join(NAMES.values()) + "\n")
    for text in arguments:
        number = signal_number(text)
        known = NAMES.get((number or 0) & 127) if text.isdigit() else str(number or "")
        yield from shell.write(1, f"{known}\n")
    return 0


def _send(shell: Shell, text: str, number: int) -> Run:
    process = shell.process
    table, mine = process.table, process.table.seen_by(process)
    if text in ("0", "-1") or (text[:1] == "-" and text[1:].isdigit()):
        for one in mine:
            spared = text == "-1" and (one is process or one.pid == 1)
            if not spared and process.identity.may_signal(one.identity):
                table.signal(one, number)
        return 0
    job = _job(shell, text) if text[:1] == "%" else None
    pid = job.pid if job is not None else int(text) if text.isdigit() and len(text) < 10 else -1
    target = next((one for one in mine if one.pid == pid), None)
    if target is None:
        if pid in shell.jobs:
            return 0  # it has ended, and `wait` has not taken it yet
        yield from shell.complain(*_no_process(shell, text, pid))
        return 1
    if not process.identity.may_signal(target.identity):
        if shell.bash:
            yield from shell.complain(f"({pid}) - Operation not permitted", "kill")
        else:
            yield from shell.complain(f"can't kill pid {pid}: Operation not permitted")
        return 1
    table.signal(target, number)
    return 0


def _no_process(shell: Shell, text: str, pid: int) -> tuple[str, str]:
    if pid < 0:
        if shell.bash:
            return f"{text}: arguments must be process or job IDs", "kill"
        return (
            (f"Illegal number: {text}", "kill")
            if shell.dialect == "dash"
            else (f"invalid number '{text}'", "")
        )
    if shell.bash:
        return f"({pid}) - No such process", "kill"
    return (
        ("No such process", "kill")
        if shell.dialect == "dash"
        else (f"can't kill pid {pid}: No such process", "")
    )


def jobs(shell: Shell, arguments: list[str]) -> Run:
    """List what runs in the background."""
    for at, child in enumerate(shell.jobs.values(), 1):
        if "-p" in arguments:
            yield from shell.write(1, f"{child.pid}\n")
        else:
            state = "Running" if not child.ended.ready else "Done"
            yield from shell.write(1, f"[{at}]+  {state:<23} {' '.join(child.words)}\n")
    return 0
