"""What a shell remembers: variables, options, functions, traps, jobs.

Holds: a variable holds at most `VALUE_MAX` characters, and all of them at most `VALUES_MAX`; the
       environment of the process is the exported variables.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from typing import NamedTuple

from actors.node.programs.ends import send
from actors.node.programs.files.errors import FileError
from actors.node.programs.process import Process
from actors.node.programs.shell import arithmetic
from actors.node.programs.shell.nodes import Command
from actors.node.programs.waits import Wait

VALUE_MAX = 1 << 20  # characters of a variable or a word: no script of an image needs more
VALUES_MAX = 1 << 21
FUNCTIONS_MAX = 1_000  # the largest scripts of distributions define some hundred
JOBS_MAX = 1_000  # those that have ended and were not waited for are forgotten, oldest first
OPTIONS = {
    "a": "allexport", "e": "errexit", "f": "noglob", "n": "noexec", "u": "nounset", "v": "verbose", "x": "xtrace",
    "C": "noclobber", "b": "notify", "m": "monitor", "h": "hashall", "B": "braceexpand",
}  # fmt: skip


Run = Generator[Wait, None, int]  # a part of a shell that ends with a status


class Runner(NamedTuple):
    """What runs scripts and commands; the parts below it reach it through `Shell.runner`."""

    script: Callable[..., Run]
    command: Callable[..., Run]
    process_file: Callable[..., Generator[Wait, None, str]]


class Fatal(Exception):
    """An error that ends a shell that is not interactive.

    text: what it says, "" if nothing; code: its exit code
    """

    def __init__(self, text: str, code: int | None = None) -> None:
        super().__init__(text)
        self.text = text
        self.code = code


class Variable:
    """A variable.  value: None if it is only declared; a mapping if it is an array"""

    __slots__ = ("associative", "exported", "integer", "readonly", "value")

    def __init__(self, value: str | dict[int | str, str] | None = None) -> None:
        self.value = value
        self.exported = self.readonly = self.associative = self.integer = False

    def copy(self) -> Variable:
        """The same for a subshell."""
        made = Variable(dict(self.value) if isinstance(self.value, dict) else self.value)
        made.exported, made.readonly = self.exported, self.readonly
        made.associative, made.integer = self.associative, self.integer
        return made


def size_of(variable: Variable | None) -> int:
    """How many characters a variable holds; an element counts ten more."""
    if variable is None or variable.value is None:
        return 0
    if isinstance(variable.value, str):
        return len(variable.value)
    return sum(map(len, variable.value.values())) + 10 * len(variable.value)


class Shell(arithmetic.Variables):
    """The state of one shell, and of its copies in subshells.

    runner: runs scripts and commands
    dialect: "ash", "dash" or "bash"
    name: `$0`; label: before its messages
    arguments: `$1` and so on
    options: the long names of those that are on
    traps: what to run for a signal's number, 0 at the end, "ERR" after a failure; "" to ignore it
    status: `$?`; pipe_status: of each command of the last pipeline
    jobs: processes in the background by number
    scopes: for each function under way, what its local variables hide
    names: the functions under way, `source` for a script
    sources: the paths of the scripts under way that were sourced
    process_files: descriptors of `<( )` and `>( )` that are closed after the command
    tested: how many conditions are around, in which a failure does not end the shell
    loops: how many loops are around in this function
    replaced: True if another program runs in place of this shell

    Size: POSIX (section 2.12) names these parts of the state, which are copied together.
    """

    def __init__(self, process: Process, dialect: str, name: str, runner: Runner) -> None:
        self.runner = runner
        self.process = process
        self.dialect = dialect
        self.name = name
        self.label = name
        self.is_script = False
        self.arguments: list[str] = []
        self.variables: dict[str, Variable] = {}
        self.functions: dict[str, Command] = {}
        self.options: set[str] = set()
        self.traps: dict[int | str, str] = {}
        self.jobs: dict[int, Process] = {}
        self.scopes: list[dict[str, Variable | None]] = []
        self.shell_pid = process.pid
        self.last_job = 0
        self.status = 0
        self.pipe_status = [0]
        self.substituted = 0  # the status of the last command substitution of a command
        self.tested = self.loops = self.depth = self.sourced = 0
        self.line = 1
        self.option_place = self.option_index = 0  # of getopts: within a word, and of the next word
        self.names: list[str] = []
        self.sources: list[str] = []
        self.process_files: list[int] = []
        self.trapping = self.replaced = False
        self.random = process.pid
        self.size = 0
        for key, value in process.env.items():
            if key.isidentifier() and key.isascii():
                self.put(key, value).exported = True
        for key, value in (("IFS", " \t\n"), ("OPTIND", "1"), ("PWD", process.cwd), ("PS4", "+ ")):
            self.put(key, value)
        self.variables["PWD"].exported = True
        if "PATH" not in self.variables:
            self.put("PATH", "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin")
        if dialect == "bash":
            self.put("BASH_VERSION", "5.2.15(1)-release")
            self.put("BASH", "/bin/bash")
            self.put("HOSTNAME", process.container.hostname)

    def copy(self) -> Shell:
        """The state of a subshell, which gets its process when that starts."""
        made: Shell = object.__new__(Shell)
        made.__dict__.update(self.__dict__)
        made.arguments = list(self.arguments)
        made.variables = {name: variable.copy() for name, variable in self.variables.items()}
        made.functions = dict(self.functions)
        made.options = set(self.options)
        made.traps = {key: action for key, action in self.traps.items() if not action}
        made.jobs = {}
        made.scopes = [
            {name: held and held.copy() for name, held in scope.items()} for scope in self.scopes
        ]  # fmt: skip
        made.names, made.sources = list(self.names), list(self.sources)
        made.process_files = []
        made.pipe_status = list(self.pipe_status)
        return made

    @property
    def bash(self) -> bool:
        """True if it is a bash."""
        return self.dialect == "bash"

    # --- variables ---------------------------------------------------------------------------

    def get(self, name: str, index: int | str | None = None) -> str | None:
        """The value of a variable, or of an element of an array; None if it is not set."""
        variable = self.variables.get(name)
        if variable is None and name in ("PIPESTATUS", "FUNCNAME", "BASH_SOURCE"):
            values, place = self.values(name), index or 0
            return values[place] if isinstance(place, int) and place < len(values) else None
        if variable is None or variable.value is None:
            return None
        if isinstance(variable.value, dict):
            return variable.value.get(self.place(variable, index if index is not None else 0))
        return variable.value if index in (None, 0, "0") else None

    @staticmethod
    def place(variable: Variable, index: int | str) -> int | str:
        """The key of an element; a negative one counts from the end."""
        if isinstance(index, int) and index < 0 and isinstance(variable.value, dict) and variable.value:
            return index + 1 + max(int(key) for key in variable.value)
        return str(index) if variable.associative else index

    def values(self, name: str) -> list[str]:
        """The elements of an array, or the one value of another variable."""
        if name == "PIPESTATUS" and self.bash:
            return [str(status) for status in self.pipe_status]
        if name == "BASH_SOURCE" and self.bash:
            return [*reversed(self.sources), *([self.name] if self.is_script else [])]
        if name == "FUNCNAME" and self.bash:
            return [*reversed(self.names), *(["main"] if self.is_script and self.names else [])]
        variable = self.variables.get(name)
        if variable is None or variable.value is None:
            return []
        if isinstance(variable.value, str):
            return [variable.value]
        return [value for _, value in self.items(variable)]

    @staticmethod
    def items(variable: Variable) -> list[tuple[int | str, str]]:
        """The elements of an array by their index."""
        if not isinstance(variable.value, dict):
            return [] if variable.value is None else [(0, variable.value)]
        if variable.associative:
            return list(variable.value.items())
        return sorted(variable.value.items())

    def put(self, name: str, value: str, index: int | str | None = None) -> Variable:
        """Assign.  Raises Fatal if it must not be changed, or is too large."""
        if len(value) > VALUE_MAX:
            raise Fatal(f"{name}: value too large")
        variable = self.variables.get(name)
        if variable is None:
            variable = self.variables[name] = Variable()
        if variable.readonly:
            raise Fatal(f"{name}: readonly variable" if self.bash else f"{name}: is read only")
        if variable.integer:
            value = str(self.calculate(value))
        if index is None and not isinstance(variable.value, dict):
            self._resize(len(value) - size_of(variable))
            variable.value = value
            if variable.exported or "allexport" in self.options:
                variable.exported = True
                self.process.env[name] = value
            return variable
        if not isinstance(variable.value, dict):
            variable.value = {} if variable.value is None else {0: variable.value}
        key = self.place(variable, 0 if index is None else index)
        if isinstance(key, int) and key < 0:
            raise Fatal(f"{name}[{key}]: bad array subscript")
        self._resize(len(value) + 10 - (len(variable.value[key]) + 10 if key in variable.value else 0))
        variable.value[key] = value
        return variable

    def _resize(self, difference: int) -> None:
        self.size += difference
        if self.size > VALUES_MAX:
            raise Fatal("out of memory")

    def put_array(self, name: str, values: list[tuple[int | str | None, str]], *, append: bool) -> None:
        """Assign a whole array.  Raises Fatal."""
        variable = self.variables.get(name)
        if variable is not None and variable.readonly:
            raise Fatal(f"{name}: readonly variable")
        if not append and variable is not None:
            self.size -= size_of(variable)
            variable.value = {}
        at = max((int(key) + 1 for key, _ in self.items(variable)), default=0) if variable and append else 0
        if variable is None:
            variable = self.variables[name] = Variable({})
        if not isinstance(variable.value, dict):
            variable.value = {} if variable.value is None else {0: variable.value}
        for key, value in values:
            place = at if key is None else key
            self.put(name, value, place)
            at = place + 1 if isinstance(place, int) else at

    def unset(self, name: str, index: int | str | None = None) -> None:
        """Forget a variable, or an element.  Raises Fatal."""
        variable = self.variables.get(name)
        if variable is None:
            return
        if variable.readonly:
            raise Fatal(
                f"unset: {name}: cannot unset: readonly variable" if self.bash else f"{name}: is read only"
            )
        if index is not None and isinstance(variable.value, dict):
            variable.value.pop(self.place(variable, index), None)
            return
        self.size -= size_of(variable)
        del self.variables[name]
        self.process.env.pop(name, None)

    def export(self, name: str, *, exported: bool = True) -> None:
        """Let the environment have a variable, or not."""
        variable = self.variables.setdefault(name, Variable())
        variable.exported = exported
        self.sync(name)

    def sync(self, name: str) -> None:
        """Make the environment agree with a variable."""
        variable = self.variables.get(name)
        if variable is not None and variable.exported and isinstance(variable.value, str):
            self.process.env[name] = variable.value
        else:
            self.process.env.pop(name, None)

    def restore(self, held: dict[str, Variable | None]) -> None:
        """Put variables back as they were."""
        for name, variable in held.items():
            self.size += size_of(variable) - size_of(self.variables.get(name))
            if variable is None:
                self.variables.pop(name, None)
            else:
                self.variables[name] = variable
            self.sync(name)

    # --- numbers -----------------------------------------------------------------------------

    def number_text(self, name: str, index: int | None) -> str:
        """The value of a variable for an expression."""
        value = self.get(name, index)
        if value is None and "nounset" in self.options:
            raise Fatal(self.unset_text(name))
        return value or ""

    def set_number(self, name: str, index: int | None, value: int) -> None:
        """Assign the value of an expression."""
        self.put(name, str(value), index)

    def calculate(self, text: str) -> int:
        """The value of an expression.  Raises Fatal."""
        try:
            return arithmetic.evaluate(text, self)
        except arithmetic.Wrong as wrong:
            if str(wrong) == "division by 0":
                raise Fatal(
                    f'{text.strip()}: division by 0 (error token is "0")' if self.bash
                    else f'arithmetic expression: division by zero: "{text}"' if self.dialect == "dash"
                    else "divide by zero"
                ) from None  # fmt: skip
            raise Fatal(str(wrong) if self.bash else "arithmetic syntax error") from None

    def close_files(self, kept: int) -> None:
        """Close the descriptors of `<( )` that were opened since there were so many."""
        while len(self.process_files) > kept:
            self.process.close(self.process_files.pop())

    # --- messages ----------------------------------------------------------------------------

    def unset_text(self, name: str) -> str:
        """The message about a variable that is not set."""
        return f"{name}: unbound variable" if self.bash else f"{name}: parameter not set"

    def message(self, text: str, command: str = "") -> str:
        """A message as this shell prints it.  command: the name of the builtin command it is about"""
        about = f"{command}: " if command else ""
        if self.bash:
            return f"{self.label}: line {self.line}: {about}{text}\n"
        if self.dialect == "dash":
            return f"{self.label}: {self.line}: {about}{text}\n"
        line = f"line {self.line}: " if command or self.is_script else ""
        return f"{self.label}: {about}{line}{text}\n"

    def complain(self, text: str, command: str = "") -> Generator[Wait, None, None]:
        """Print a message."""
        yield from self.write(2, self.message(text, command))

    def write(self, fd: int, text: str) -> Generator[Wait, None, bool]:
        """Write to a descriptor.  False if it could not be written."""
        end = self.process.ends.get(fd)
        if end is None:
            return False
        try:
            yield from send(end, text.encode("utf-8", "surrogateescape"))
        except FileError:
            return False
        except UnicodeEncodeError:
            yield from send(end, text.encode("utf-8", "replace"))
        return True


# --- what leaves a command early ------------------------------------------------------------


class Leave(Exception):
    """Leave loops.  count: how many; again: True if the last of them continues"""

    def __init__(self, count: int, *, again: bool) -> None:
        super().__init__(count)
        self.count = count
        self.again = again


class Return(Exception):
    """Leave a function or a sourced script."""

    def __init__(self, code: int) -> None:
        super().__init__(code)
        self.code = code


class Exit(Exception):
    """Leave the shell."""

    def __init__(self, code: int) -> None:
        super().__init__(code)
        self.code = code
