"""Which containers run programs that the interpreter knows, and what their images hold.

Turns the command line of a container into the answer whether its processes are simulated, and an
image into the layer of its files.

Holds: a container that only sleeps, ends or runs an unknown program has no processes, and costs
       nothing more than its record; the interpreter is imported when it is first needed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cache
from importlib import import_module
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

from actors.node.runtime.commands import FETCHERS, steps_of
from actors.node.runtime.programs import image_entry, reads_input, table, words_of
from actors.node.runtime.shell_scripts import SHELLS, commands_of, program_of, script_of
from sim.api.types import Obj
from sim.patterns import pattern

if TYPE_CHECKING:
    from actors.node.programs.files.tree import Mount, Tree

# Commands of every shell itself, which no file of the image has to provide.
BUILTINS = (
    ".", ":", "[", "alias", "cd", "command", "echo", "eval", "exit", "export", "false", "hash", "kill", "let", "local",
    "printf", "pwd", "read", "readonly", "return", "set", "shift", "source", "test", "times", "trap", "true", "type",
    "ulimit", "umask", "unset", "wait",
)  # fmt: skip
# Programs that do nothing but take time and end: their containers need no processes.
PLAIN = ("sleep", "exit", "true", "false", ":")


class Interpreter:
    """The known programs.

    programs: name -> what it does
    asleep: names of servers that start when the first connection comes
    """

    __slots__ = ("asleep", "programs")

    def __init__(self, programs: Mapping[str, Any], asleep: frozenset[str] = frozenset()) -> None:
        self.programs = programs
        self.asleep = asleep

    def runs(self, container: Obj) -> bool:
        """True if the container's programs are to be simulated."""
        words = words_of(container)
        if program_of(words) not in self.programs or program_of(words) in self.asleep or _is_plain(words):
            return False
        if reads_input(words) and not container.get("stdin"):
            return False
        line = script_of(words)
        return line is None or not self._reaches_unknown(line, container.get("image") or "")

    def _reaches_unknown(self, line: str, image: str) -> bool:
        """True if a script needs a program that the interpreter lacks and the image may have.

        Quirk: what a known image lacks ends with 127, as upstream; an unknown image has what its
        author's script names, which runs for ever, and clients of the network reach their servers.
        """
        if any(name not in self.programs and pattern(rf"\b{name}\b").search(line) for name in FETCHERS):
            return True
        if image_entry(image) is not None:
            return False
        try:
            lines = [
                command.words[1:] if command.words[0] == "exec" else command.words
                for command in commands_of(line)
            ]
        except ValueError:
            return False
        return any(
            program_of(words) not in self.programs and words[:1] and words[0] not in BUILTINS
            for words in lines
        )

    def lacks(self, words: Sequence[str]) -> list[str]:
        """What a command line needs that is not known here, as sentences without a dot."""
        from actors.node.programs.shell.survey import programs_in

        name, line = program_of(words), script_of(words)
        if line is None:
            known = not words or name in self.programs or _is_plain(words)
            return [] if known else [f"the program {name} is not known"]
        names, problem = programs_in(line, bash=name == "bash")
        lacking = [f"the program {one} is not known" for one in names if one not in self.programs]
        return [*lacking, *([f"the shell: {problem}"] if problem else [])]

    def tree(
        self,
        image: str,
        mounts: Iterable[Mount],
        wall_us: Callable[[], int],
        *,
        name: str,
        read_only: bool,
        devices: Iterable[str] = (),
    ) -> Tree:
        """The files of a new container of an image.

        name: other than that of every other container; devices: see `system_mounts`
        """
        from actors.node.programs.files.layout import image_layer
        from actors.node.programs.files.special import system_mounts
        from actors.node.programs.files.tree import Tree

        entry = image_entry(image) or {}
        busybox = bool(entry.get("busybox"))
        starts = [*(entry.get("entrypoint") or ()), *(entry.get("command") or ())][:1]
        places = {program_of(starts): starts[0]} if starts and starts[0].startswith("/") else {}
        system = "debian" if not busybox else "alpine" if "alpine" in image else "busybox"
        known = {name: path for name, path in places.items() if name in self.programs}
        layer = image_layer(
            sorted(self.programs), wall_us(), system=system, busybox=busybox, places=known,
            folders=entry.get("folders") or (),
            files=dict.fromkeys(entry.get("library") or (), table()["library"].encode()),
        )  # fmt: skip
        every = [*system_mounts(name, wall_us(), devices), *mounts]
        return Tree(layer, every, wall_us, read_only=read_only, busybox=busybox, programs=self.programs)


def _is_plain(words: Sequence[str]) -> bool:
    """True if a command line has nothing but programs in it that take time and end."""
    line = script_of(words)
    if line is None:
        return program_of(words) in PLAIN or list(words[1:]) == ["-f", "/dev/null"]
    try:
        steps = list(steps_of(line))
    except ValueError:
        return False
    return all(program_of(step.command.words) in PLAIN and not step.command.target for step in steps)


@cache
def interpreter() -> Interpreter | None:
    """The interpreter with all known programs; None if this build has none."""
    if find_spec("actors.node.programs.commands") is None or find_spec("actors.node.programs.shell") is None:
        return None
    commands = import_module("actors.node.programs.commands").COMMANDS
    shell = import_module("actors.node.programs.shell").run
    images = import_module("actors.node.programs.images")
    known = {**commands, **dict.fromkeys(SHELLS, shell), **images.PROGRAMS}
    return Interpreter(known, frozenset(images.ASLEEP))


def has_programs(container: Obj) -> bool:
    """True if the interpreter runs the programs of a container."""
    found = interpreter()
    return found is not None and found.runs(container)
