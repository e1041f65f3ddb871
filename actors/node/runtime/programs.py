"""Well-known images and programs, from the table `programs.toml`.

Turns a container's spec into the words of its command line, which `command` and `args` give or its
image, and the command line into what SIGTERM does to the program.

Mirrors  the rule of runtimes: `command` replaces an image's entry point and its arguments, `args`
         replaces the arguments only; Linux kernel/signal.c: sig_task_ignored: process 1 of a
         namespace gets no signal that it has no handler for, except SIGKILL from outside.
Differs  only the table knows images and programs: a program that is not in it counts as a server
         that handles SIGTERM and ends with 0. An unknown image has no entry point if its arguments
         begin with a shell or another program that the table lists without a handler.
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping, Sequence
from functools import cache, lru_cache
from pathlib import Path
from types import MappingProxyType
from typing import Any

from actors.node.runtime.shell_scripts import commands_of, program_of, script_of
from sim.patterns import pattern

TERMINATED_CODE = 143  # 128 and SIGTERM
DIES: Mapping[str, Any] = MappingProxyType({"stop_exit_code": TERMINATED_CODE})
IGNORES: Mapping[str, Any] = MappingProxyType({"stop_us": None})
HANDLES: Mapping[str, Any] = MappingProxyType({})
_TRAP = pattern(r"(?:^|[\s;&|{(])trap\s")


@cache
def table() -> Mapping[str, Any]:
    """The table of the file."""
    path = Path(__file__).with_name("programs.toml")
    return MappingProxyType(tomllib.loads(path.read_text(encoding="utf-8")))


@lru_cache(maxsize=1024)
def image_entry(image: str) -> Mapping[str, Any] | None:
    """The table's entry of an image, with any registry, tag and digest; None if it has none."""
    path = image.partition("@")[0]
    head, slash, rest = path.partition("/")
    if slash and ("." in head or ":" in head or head == "localhost"):
        path = rest
    path = path.removeprefix("library/")
    base, _, name = path.rpartition("/")
    path = f"{base}/{name.partition(':')[0]}".lstrip("/")
    known = table()
    found: Mapping[str, Any] | None = known["images"].get(known["aliases"].get(path, path))
    return found


def words_of(container: Mapping[str, Any]) -> list[str]:
    """The command line of a container; empty if only its unknown image says what it runs."""
    command, arguments = list(container.get("command") or ()), list(container.get("args") or ())
    if command:
        return [*command, *arguments]
    entry = image_entry(container.get("image") or "")
    if entry is None:
        # A shell or `sleep` as the first argument says that the image has no entry point of its own.
        known = program_of(arguments)
        return arguments if known in (*table()["shells"], *table()["no_handler"]) else []
    line = arguments or list(entry.get("command") or ())
    return line if entry.get("runs_arguments") else [*(entry.get("entrypoint") or ()), *line]


def name_of(container: Mapping[str, Any]) -> str:
    """The name of a container's first program; that of its image where only the image knows it."""
    image = str(container.get("image") or "").partition("@")[0].rpartition("/")[2].partition(":")[0]
    return program_of(words_of(container)) or image or "app"


def is_known(container: Mapping[str, Any]) -> bool:
    """True if the table says anything about a container's image or its program."""
    if not container.get("command") and image_entry(container.get("image") or "") is not None:
        return True
    known, program = table(), program_of(words_of(container))
    return any(program in known[name] for name in ("no_handler", "inits", "exit_codes"))


def reads_input(words: Sequence[str]) -> bool:
    """True if the program is a shell or an interpreter that ends with its input."""
    program = program_of(words)
    return len(words) == 1 and program in (*table()["shells"], *table()["interpreters"])


def on_term(words: Sequence[str], *, is_first: bool) -> Mapping[str, Any]:
    """What SIGTERM does to a program, as fields of `ContainerBehaviour`.

    is_first: True if the program is process 1 of its container
    """
    known, program = table(), program_of(words)
    if program in known["inits"]:
        return on_term(_started_by_init(words), is_first=False)
    if program in known["shells"]:
        inner = _becomes(words)
        if inner is not None:
            return on_term(inner, is_first=is_first)
        has_handler = _has_trap(words)
    elif program in known["exit_codes"]:
        return {"stop_exit_code": known["exit_codes"][program]}
    else:
        has_handler = program not in known["no_handler"]
    if has_handler:
        return HANDLES
    return IGNORES if is_first else DIES


def _started_by_init(words: Sequence[str]) -> Sequence[str]:
    """The command line that an init process starts: what follows its own options."""
    plain = (index for index, word in enumerate(words) if index and not word.startswith("-"))
    return words[words.index("--") + 1 if "--" in words else next(plain, len(words)) :]


def _becomes(words: Sequence[str]) -> Sequence[str] | None:
    """The command that a shell replaces itself by: its only one, or that of a last `exec`."""
    line = script_of(words)
    if line is None:
        return None
    try:
        commands = [command.words for command in commands_of(line)]
    except ValueError:
        return None
    last = commands[-1] if commands else []
    if last[:1] == ["exec"] and len(last) > 1:
        return last[1:]
    builtin = last[:1] in (["exit"], [":"], ["wait"], ["read"])
    return last if len(commands) == 1 and last and not builtin else None


def _has_trap(words: Sequence[str]) -> bool:
    """True if a shell may handle signals: its script sets a trap, or is in a file."""
    line = script_of(words)
    if line is not None:
        return _TRAP.search(line) is not None
    return len(words) > 1
