"""Commands that run others or wait: sleep, timeout, xargs, which, nohup, time, watch.

Mirrors  POSIX.1-2017 XCU sleep, xargs, nohup; timeout(1) of coreutils and busybox.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from dataclasses import replace

from actors.node.programs.commands.names import People
from actors.node.programs.commands.system import signal_number
from actors.node.programs.commands.texts import become
from actors.node.programs.commands.tool import Failed, Options, Tool, Usage, to_bytes, to_text
from actors.node.programs.lookup import NOT_FOUND, PATH, NotRunnable, find
from actors.node.programs.process import KILLED, Process, Signal
from actors.node.programs.waits import PAUSE, Main, Wait
from sim.patterns import pattern
from sim.units import MS, SECOND

_DURATION = pattern(r"(\d*)(?:\.(\d*))?([smhd]?)")
_UNITS_S = {"": 1, "s": 1, "m": 60, "h": 3600, "d": 86400}
FOREVER_US = 1 << 60
ARGUMENTS_MAX = 131_072  # bytes of a command line that `xargs` builds
CALLS_MAX = 10_000  # commands of one `xargs`


def duration_us(text: str) -> int | None:
    """The time that a word means: 1.5, 2m, infinity; None if it means none."""
    if text in ("inf", "infinity"):
        return FOREVER_US
    match = _DURATION.fullmatch(text)
    if match is None or not (match[1] or match[2]):
        return None
    whole, fraction = int(match[1][:12] or 0), (match[2] or "0")[:6].ljust(6, "0")
    return min((whole * SECOND + int(fraction)) * _UNITS_S[match[3]], FOREVER_US)


def sleep(tool: Tool) -> Main:
    """Wait for the sum of some durations."""
    options = tool.options("+", {})
    if not options.rest:
        raise Usage("missing operand")
    total_us = 0
    for word in options.rest:
        part_us = duration_us(word)
        if part_us is None:
            text = f"invalid number '{word}'"
            raise Failed(text) if tool.busybox else Usage(f"invalid time interval '{word}'")
        total_us += part_us
    until_us = tool.process.now_us + total_us
    while tool.process.now_us < until_us:
        yield Wait(until_us=until_us) if total_us < FOREVER_US else Wait()
    return 0


def usleep(tool: Tool) -> Main:
    """Wait for some microseconds."""
    text = tool.args[0] if tool.args else ""
    if not text.isdigit():
        raise Usage("missing operand")
    until_us = tool.process.now_us + int(text[:15])
    while tool.process.now_us < until_us:
        yield Wait(until_us=until_us)
    return 0


def timeout(tool: Tool) -> Main:
    """Run a command, and end it after a time: -s SIGNAL, -k SECONDS until SIGKILL."""
    options = tool.options(
        "+s:k:t:v", {"signal": "s", "kill-after": "k", "preserve-status": "v", "foreground": "v"}, code=125
    )
    words = list(options.rest)
    if "t" in options:
        words.insert(0, options.last("t"))
    if len(words) < 2:
        raise Usage("missing operand", 125)
    limit_us = duration_us(words[0])
    if limit_us is None and tool.busybox:
        raise Failed(f"invalid number '{words[0]}'")
    if limit_us is None:
        raise Usage(f"invalid time interval '{words[0]}'", 125)
    number = signal_number(options.last("s", "TERM"))
    child = yield from tool.started(words[1:])
    if child is None:
        return tool.code
    if (yield from _ends_within(tool, child, limit_us or FOREVER_US)):
        return child.ended.code
    tool.process.table.signal(child, number)
    kill_us = duration_us(options.last("k")) if "k" in options else None
    if not (yield from _ends_within(tool, child, FOREVER_US if kill_us is None else kill_us)):
        tool.process.table.signal(child, Signal.KILL)
        return KILLED + Signal.KILL
    if tool.busybox or number == Signal.KILL:
        return KILLED + number
    return child.ended.code if "v" in options else 124


def _ends_within(tool: Tool, child: Process, limit_us: int) -> Generator[Wait, None, bool]:
    """Wait for the end of a process; False if it takes longer."""
    until_us = tool.process.now_us + limit_us
    while not child.ended.ready and tool.process.now_us < until_us:
        yield Wait((child.ended,), until_us=until_us)
    return child.ended.ready


def _words(data: bytes, delimiter: bytes) -> list[str]:
    """The arguments in the input of `xargs`, with quotes and backslashes."""
    if delimiter:
        parts = data.split(delimiter)
        return [to_text(part) for part in (parts[:-1] if parts and not parts[-1] else parts)]
    found, word, quote, begun, escaped = [], bytearray(), 0, False, False
    for byte in data:
        if escaped:
            word.append(byte)
            escaped, begun = False, True
        elif quote:
            if byte == quote:
                quote = 0
            else:
                word.append(byte)
        elif byte in b"\"'":
            quote, begun = byte, True
        elif byte == 0x5C:
            escaped = True
        elif byte in b" \t\n\r":
            if begun:
                found.append(to_text(bytes(word)))
            word, begun = bytearray(), False
        else:
            word.append(byte)
            begun = True
    if quote:
        mark = "double" if quote == 0x22 else "single"
        raise Failed(
            f"unmatched {mark} quote; by default quotes are special to xargs unless you use the -0 option"
        )
    return [*found, to_text(bytes(word))] if begun else found


def xargs(tool: Tool) -> Main:
    """Run a command with words of the input: -n at once, -I in place, -0 -d delimiters."""
    options = tool.options(
        "+0d:n:I:rtL:P:s:E:a:x", {"null": "0", "delimiter": "d", "max-args": "n", "replace": "I", "no-run-if-empty": "r",
                                  "verbose": "t", "max-lines": "L", "max-procs": "P"},
    )  # fmt: skip
    delimiter = (
        b"\0" if "0" in options else to_bytes(options.last("d").replace("\\n", "\n").replace("\\0", "\0"))
    )
    data = yield from tool.everything(options.all("a"))
    command = options.rest or ["echo"]
    if "I" in options:
        lines = [to_text(line.strip(b" \t")) for line in data.split(delimiter or b"\n")]
        calls = [
            [word.replace(options.last("I") or "{}", line) for word in command] for line in lines if line
        ]
    else:
        most = options.last("n") or options.last("L")
        if most and (not most.isdigit() or int(most[:9]) < 1):
            raise Failed(f"invalid number '{most}'")
        calls = _batches(command, _words(data, delimiter), int(most[:9]) if most else 0, options)
    if len(calls) > CALLS_MAX:
        raise Failed("too many commands")
    return (yield from _called(tool, calls, "t" in options))


def _batches(command: list[str], words: list[str], most: int, options: Options) -> list[list[str]]:
    if not words:
        return [] if "r" in options else [command]
    calls: list[list[str]] = []
    size = ARGUMENTS_MAX
    for word in words:
        size += len(word) + 1
        if size > ARGUMENTS_MAX or (most and len(calls[-1]) - len(command) >= most):
            calls.append(list(command))
            size = len(word)
        calls[-1].append(word)
    return calls


def _called(tool: Tool, calls: list[list[str]], verbose: bool) -> Main:
    """Run commands one after another; the exit code of `xargs`."""
    code = 0
    for words in calls:
        if verbose:
            yield from tool.warn(" ".join(words) + "\n")
        tool.code = 0
        ended = yield from tool.run(words)
        if tool.code:
            return tool.code
        if ended == 255:
            yield from tool.complain(f"{words[0]}: exited with status 255; aborting", 124)
            return 124
        if ended >= KILLED:
            return 125
        code = 123 if ended else code
    return code


def busybox(tool: Tool) -> Main:
    """Run the tool that the first argument names; --list prints all."""
    programs = tool.files.programs
    if not tool.args or tool.args[0] == "--list":
        yield from tool.write("".join(f"{name}\n" for name in sorted(programs)))
        return 0
    name = tool.args[0].rpartition("/")[2]
    if name not in programs or name == "busybox":
        yield from tool.warn(f"{name}: applet not found\n")
        return NOT_FOUND
    tool.process.words = tool.args
    runs: Callable[[Process], Main] = programs[name]
    return (yield from runs(tool.process))


def which(tool: Tool) -> Main:
    """Print the paths of commands: -a all of them."""
    options = tool.options("as")
    code = 0
    for name in options.rest:
        try:
            path = find(tool.process, name)
        except NotRunnable:
            code = 1
            continue
        yield from tool.write(path + "\n")
    return code if options.rest else 1


def nohup(tool: Tool) -> Main:
    """Run a command that ignores SIGHUP."""
    words = tool.args[1:] if tool.args[:1] == ("--",) else tool.args
    if not words:
        raise Usage("missing operand", 125)
    tool.process.ignored |= {int(Signal.HUP)}
    return (yield from become(tool, words))


def nice(tool: Tool) -> Main:
    """Run a command; priorities have no effect.  setsid, ionice and stdbuf do the same."""
    options = tool.options("+n:c:o:e:i:p:w", {"adjustment": "n"}, code=125)
    if not options.rest:
        yield from tool.write("0\n")
        return 0
    return (yield from become(tool, options.rest))


def time(tool: Tool) -> Main:
    """Run a command, and show how long it took."""
    options = tool.options("+pv", {"portability": "p"})
    start_us = tool.process.now_us
    code = (yield from tool.run(options.rest)) if options.rest else 0
    took_us = tool.process.now_us - start_us
    minutes, rest = divmod(took_us, 60 * SECOND)
    if "p" in options:
        yield from tool.warn(
            f"real {took_us // SECOND}.{took_us % SECOND // (10 * MS):02d}\nuser 0.00\nsys 0.00\n"
        )
    else:
        yield from tool.warn(
            f"real\t{minutes}m {rest // SECOND}.{rest % SECOND // (10 * MS):02d}s\nuser\t0m 0.00s\nsys\t0m 0.00s\n"
        )
    return code


def watch(tool: Tool) -> Main:
    """Run a command again and again: -n seconds between."""
    options = tool.options("+n:td", {"interval": "n", "no-title": "t"})
    pause_us = duration_us(options.last("n", "2")) or 2 * SECOND
    if not options.rest:
        raise Usage("missing operand")
    while True:
        yield PAUSE
        tool.code = 0
        yield from tool.run(["sh", "-c", " ".join(options.rest)])
        until_us = tool.process.now_us + pause_us
        while tool.process.now_us < until_us:
            yield Wait(until_us=until_us)


def su(tool: Tool) -> Main:
    """Run a shell, or with -c a command, as another user: -s SHELL, - with a new environment."""
    args = [word for word in tool.args if word not in ("-", "--login")]
    login, tool.args = len(args) < len(tool.args), tuple(args)
    options = tool.options(
        "c:s:lmp", {"command": "c", "shell": "s", "login": "l", "preserve-environment": "p"}
    )
    process, name = tool.process, options.rest[0] if options.rest else "root"
    if process.identity.uid:
        raise Failed("must be suid to work properly" if tool.busybox else "Authentication failure")
    people = People(tool)
    if name not in people.users:
        user = f"user {name} does not exist" if not tool.busybox else f"unknown user {name}"
        raise Failed(user)
    _change_user(tool, people, name, "can't set groups" if tool.busybox else "cannot set groups")
    if login or "l" in options:
        process.env.clear()
        process.env.update({"PATH": PATH, "USER": name, "LOGNAME": name})
        process.cwd = people.homes.get(name) or "/"
    if "m" not in options and "p" not in options:
        process.env["HOME"] = people.homes.get(name) or "/"
    shell = options.last("s") or people.shells.get(name) or "/bin/sh"
    given = ("-c", options.last("c")) if "c" in options else ()
    return (yield from become(tool, (shell, *given, *options.rest[1:])))


def gosu(tool: Tool) -> Main:
    """Go on as another user: gosu USER[:GROUP] COMMAND, as su-exec does."""
    if len(tool.args) < 2:
        raise Usage("user-spec and command are needed")
    _change_user(tool, People(tool), tool.args[0], f"failed switching to {tool.args[0]!r}")
    return (yield from become(tool, tool.args[1:]))


def _change_user(tool: Tool, people: People, spec: str, problem: str) -> None:
    """Give the process another user, its group and the groups that it is in.  Raises Failed."""
    process, who = tool.process, tool.process.identity
    uid, gid = people.owner(spec if ":" in spec else f"{spec}:", tool.busybox)
    name = spec.partition(":")[0]
    groups = () if ":" in spec else tuple(people.members.get(name, ()))
    if not (who.may("SETGID") and who.may("SETUID")):
        raise Failed(f"{problem}: Operation not permitted")
    process.identity = replace(who, uid=who.uid if uid < 0 else uid, gid=max(gid, 0), groups=groups)
    process.env["HOME"] = people.homes.get(name) or "/"


COMMANDS = {
    "busybox": busybox,
    "ionice": nice, "nice": nice, "nohup": nohup, "setsid": nice, "sleep": sleep, "stdbuf": nice, "time": time,
    "gosu": gosu, "su": su, "su-exec": gosu,
    "timeout": timeout, "usleep": usleep, "watch": watch, "which": which, "xargs": xargs,
}  # fmt: skip
