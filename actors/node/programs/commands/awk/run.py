"""The execution of an awk program.

An expression that cannot wait is a plain call; one that may (getline, system, a function of the
program) is a generator, which computes the parts that wait and then the rest as a plain call.

Mirrors  POSIX.1-2017 XCU awk: Actions, Input/Output Functions; messages are those of mawk.
Differs  a run opens `OPEN_MAX` files, and calls functions `CALLS_MAX` deep.
"""

from __future__ import annotations

from collections.abc import Generator
from typing import Any

from actors.node.programs.commands.awk.functions import whole
from actors.node.programs.commands.awk.parse import Node, Parser
from actors.node.programs.commands.awk.records import Records
from actors.node.programs.commands.awk.state import State, latin, path_of
from actors.node.programs.commands.awk.tokens import string_of as unescaped
from actors.node.programs.commands.awk.values import (
    STRING_MAX,
    Typed,
    Value,
    formatted,
    is_true,
    number_of,
    string_of,
)
from actors.node.programs.commands.tool import Failed, Steps, Tool, Usage
from actors.node.programs.ends import BrokenPipe, End, pipe, send
from actors.node.programs.files.errors import FileError
from actors.node.programs.files.handles import APPENDING, WRITING
from actors.node.programs.lookup import program
from actors.node.programs.process import NoProcess, Process
from actors.node.programs.waits import PAUSE, Main, Wait

OPEN_MAX = 64
CALLS_MAX = 40
STEPS_A_PAUSE = 10  # turns of loops and records before other processes have their turn

Getting = Generator[Wait, None, Value]


class _Leave(Exception):
    """A statement leaves a loop, a rule, a function or the program.  kind: its word"""

    def __init__(self, kind: str, value: Value = None) -> None:
        super().__init__(kind)
        self.kind = kind
        self.value = value


class Awk(State):
    """One run of a program.

    ends: files and commands that it prints to, by name; inputs: those that it reads from
    operand: the number of the next operand; opened: True once an input was read
    """

    def __init__(self, tool: Tool, text: str) -> None:
        super().__init__(tool)
        self.program = Parser(text).parse()
        self.steps = 0
        self.ends: dict[str, tuple[End, Process | None]] = {}
        self.inputs: dict[str, Records] = {}
        self.main: Records | None = None
        self.operands: list[str] = []
        self.operand = 0
        self.opened = False
        self.code = 0

    # --- expressions that may wait ----------------------------------------------------------------

    def get(self, node: Node) -> Getting:
        """The value of an expression that may wait."""
        if not node.waits:
            return self.value(node)
        kind, parts = node.kind, node.parts
        if kind in ("and", "or"):
            left = is_true((yield from self.get(parts[0])))
            if left == (kind == "or"):
                return float(left)
            return float(is_true((yield from self.get(parts[1]))))
        if kind == "condition":
            return (yield from self.get(parts[1] if is_true((yield from self.get(parts[0]))) else parts[2]))
        if kind == "call":
            return (yield from self._call(*parts))
        if kind == "getline":
            return (yield from self._getline(*parts))
        if kind == "builtin" and parts[0] in ("system", "close", "fflush"):
            return (yield from self._command(*parts))
        entry = []
        for part in parts:
            if isinstance(part, tuple):
                several = []
                for one in part:
                    several.append((yield from self._known(one)))
                entry.append(tuple(several))
            else:
                entry.append((yield from self._known(part)))
        return self.value(Node(kind, *entry))

    def _known(self, part: Any) -> Generator[Wait, None, Any]:
        """The part, computed if it may wait."""
        if not isinstance(part, Node) or not part.waits or part.kind in ("element", "field"):
            if isinstance(part, Node) and part.waits:  # an element with a subscript that waits
                inner = []
                for one in part.parts[1] if part.kind == "element" else (part.parts[0],):
                    inner.append((yield from self._known(one)))
                return (
                    Node(part.kind, part.parts[0], tuple(inner))
                    if part.kind == "element"
                    else Node("field", inner[0])
                )
            return part
        return Node("value", (yield from self.get(part)))

    def _call(self, name: str, given: tuple[Node, ...]) -> Getting:
        function = self.program.functions.get(name)
        if function is None:
            raise Failed(f"function {name} never defined", 2)
        names, body = function
        if len(given) > len(names):
            raise Failed(f"too many arguments in call to {name}", 2)
        frame: dict[str, Any] = dict.fromkeys(names)
        untyped: list[tuple[str, str]] = []
        for parameter, node in zip(names, given, strict=False):
            if node.kind == "name":
                current = self.variable(node.parts[0]) if node.parts[0] != "NF" else self.value(node)
                frame[parameter] = current
                if current is None:
                    untyped.append((parameter, node.parts[0]))
            else:
                frame[parameter] = yield from self.get(node)
        if len(self.frames) >= CALLS_MAX:
            raise Failed("function calls nested too deep", 2)
        yield from self.pause()
        caller = self.frames[-1] if self.frames else None
        for parameter, outer in untyped:  # it may turn out to be an array
            if _is_array(body, parameter, self.program.functions):
                scope = caller if caller is not None and outer in caller else self.globals
                frame[parameter] = scope[outer] = {}
        self.frames.append(frame)
        try:
            yield from self.run(body)
        except _Leave as leave:
            if leave.kind != "return":
                raise
            return leave.value
        finally:
            self.frames.pop()
        return None

    def _getline(self, how: str, source: Node | None, target: Node | None) -> Getting:
        if source is None:
            text = yield from self.next_record()
        else:
            name = self.text((yield from self.get(source)))
            records = self.inputs.get(name) or (yield from self._input(name, how))
            if records is None:
                return -1.0
            text = yield from records.record(self.text(self.globals["RS"]))
        if text is None:
            return 0.0
        if source is None or (how == "|"):
            self.globals["NR"] = number_of(self.globals["NR"]) + 1
            if source is None:
                self.globals["FNR"] = number_of(self.globals["FNR"]) + 1
        if target is None:
            self.set_record(text)
        else:
            self.assign(target, Typed(text))
        return 1.0

    def _input(self, name: str, how: str) -> Generator[Wait, None, Records | None]:
        """A file, or the output of a command."""
        if len(self.inputs) + len(self.ends) >= OPEN_MAX:
            raise Failed("too many open files", 2)
        if how == "|":
            reader, writer = pipe()
            ends: dict[int, End] = {**self.tool.process.ends, 1: writer}
            child = yield from self.child(name, ends)
            writer.close()
            self.tool.keep(reader)
            self.inputs[name] = Records(reader, child)
            return self.inputs[name]
        try:
            self.inputs[name] = Records(self.tool.opened("-" if name == "/dev/stdin" else path_of(name)))
        except FileError:
            return None
        return self.inputs[name]

    def child(self, line: str, ends: dict[int, End]) -> Generator[Wait, None, Process]:
        """Start a command line.  Raises Failed."""
        yield from self.tool.flush()
        words = ("sh", "-c", path_of(line))
        try:
            return self.tool.process.child(program(self.tool.process, words), words, ends=ends)
        except NoProcess:
            raise Failed("cannot fork", 2) from None

    def _command(self, name: str, given: tuple[Node, ...]) -> Getting:
        """system, close and fflush."""
        text = self.text((yield from self.get(given[0]))) if given else ""
        yield from self.tool.flush()
        if name == "close":
            return (yield from self.close(text))
        if name == "system":
            child = yield from self.child(text, dict(self.tool.process.ends))
            while not child.ended.ready:
                yield Wait((child.ended,))
            return float(child.ended.code)
        return 0.0

    def close(self, name: str) -> Getting:
        """Close a file or a pipe; the exit code of its command."""
        child = None
        if name in self.inputs:
            records = self.inputs.pop(name)
            child = records.process
            self.tool.close(records.end)
        elif name in self.ends:
            end, child = self.ends.pop(name)
            self.tool.close(end)
        else:
            return -1.0
        while child is not None and not child.ended.ready:
            yield Wait((child.ended,))
        return float(child.ended.code) if child is not None else 0.0

    # --- statements -------------------------------------------------------------------------------

    def pause(self) -> Steps:
        """Let others have their turn, once in a while."""
        self.steps += 1
        if self.steps % STEPS_A_PAUSE == 0:
            yield PAUSE

    def run(self, node: Node) -> Steps:
        """Execute a statement.  Raises _Leave."""
        kind, parts = node.kind, node.parts
        if kind == "block":
            for one in parts[0]:
                yield from self.run(one)
        elif kind == "do expression":
            yield from self.get(parts[0])
        elif kind in ("print", "printf"):
            yield from self._print(kind, *parts)
        elif kind == "if":
            chosen = parts[1] if is_true((yield from self.get(parts[0]))) else parts[2]
            if chosen is not None:
                yield from self.run(chosen)
        elif kind == "for":
            yield from self._for(*parts)
        elif kind == "do":
            yield from self._for(None, parts[0], None, parts[1], first=True)
        elif kind == "for in":
            for key in tuple(self.array(parts[1])):
                self.set(parts[0], Typed(key))
                if (yield from self._turn(parts[2])):
                    break
        elif kind == "delete":
            array = self.array(parts[0])
            if parts[1] is None:
                self.clear(array)
            elif (key := self.key(parts[1])) in array:
                self.elements -= 1
                self.held -= len(key)
                self._count(array.pop(key), None)
        else:
            yield from self._leave(kind, *parts)

    def _leave(self, kind: str, value: Node | None = None) -> Steps:
        result = None if value is None else (yield from self.get(value))
        if kind == "exit" and value is not None:
            self.code = whole(result) & 255
        raise _Leave(kind, result)

    def _for(
        self,
        begin: Node | None,
        condition: Node | None,
        step: Node | None,
        body: Node,
        *,
        first: bool = False,
    ) -> Steps:
        if begin is not None:
            yield from self.run(begin)
        while first or condition is None or is_true((yield from self.get(condition))):
            first = False
            if (yield from self._turn(body)):
                return
            if step is not None:
                yield from self.run(step)

    def _turn(self, body: Node) -> Generator[Wait, None, bool]:
        """One turn of a loop; True if it was the last."""
        yield from self.pause()
        try:
            yield from self.run(body)
        except _Leave as leave:
            if leave.kind not in ("break", "continue"):
                raise
            return leave.kind == "break"
        return False

    def _print(self, kind: str, given: tuple[Node, ...], mode: str, target: Node | None) -> Steps:
        values = []
        for one in given:
            values.append((yield from self.get(one)))
        if kind == "printf":
            text = formatted(self.text(values[0]), values[1:], self.form())
        else:
            form = string_of(self.globals["OFMT"])
            shown = [one if type(one) is str else string_of(one, form) for one in values or [self.field(0)]]
            text = self.text(self.globals["OFS"]).join(shown) + self.text(self.globals["ORS"])
        data = text.encode("latin-1", "replace")
        if target is None:
            yield from self.tool.write(data)
            return
        name = self.text((yield from self.get(target)))
        if name in ("/dev/stdout", "-") and mode != "|":
            yield from self.tool.write(data)
        elif name == "/dev/stderr" and mode != "|":
            yield from self.tool.warn(data.decode("utf-8", "surrogateescape"))
        else:
            end = self.ends[name][0] if name in self.ends else (yield from self._output(name, mode))
            try:
                yield from send(end, data)
            except (FileError, BrokenPipe) as error:
                text = error.text if isinstance(error, FileError) else "Broken pipe"
                raise Failed(f"write failure ({text})", 2) from None

    def _output(self, name: str, mode: str) -> Generator[Wait, None, End]:
        if len(self.inputs) + len(self.ends) >= OPEN_MAX:
            raise Failed("too many open files", 2)
        child = None
        if mode == "|":
            reader, end = pipe()
            child = yield from self.child(name, {**self.tool.process.ends, 0: reader})
            reader.close()
            new: End = end
        else:
            try:
                new = self.tool.files.open(
                    path_of(name), self.tool.process, APPENDING if mode == ">>" else WRITING
                )
            except FileError as error:
                raise Failed(f"cannot open {name} for output ({error.text})", 2) from None
        self.tool.keep(new)
        self.ends[name] = new, child
        return new

    # --- the input --------------------------------------------------------------------------------

    def next_record(self) -> Generator[Wait, None, str | None]:
        """The next record of the operands; None after the last."""
        while True:
            if self.main is None and not (yield from self._open_next()):
                return None
            assert self.main is not None
            text = yield from self.main.record(self.text(self.globals["RS"]))
            if text is not None:
                return text
            self.skip_file()

    def skip_file(self) -> None:
        """No more of the present input is read."""
        if self.main is not None:
            self.tool.close(self.main.end)
            self.main = None

    def _open_next(self) -> Generator[Wait, None, bool]:
        """Open the next input, and carry out assignments before it."""
        while self.operand <= len(self.operands):
            first = not any("=" not in one for one in self.operands[: self.operand])
            if self.operand == len(self.operands):
                self.operand += 1
                if not first or self.opened:
                    return False
                path = "-"
            else:
                path = self.operands[self.operand]
                self.operand += 1
                if self.assigned(path) or not path:
                    continue
            self.opened = True
            try:
                self.main = Records(self.tool.opened(path))
            except FileError as error:
                yield from self.tool.complain(f"cannot open {path} ({error.text})", 2)
                self.code = 2
                continue
            self.globals["FILENAME"], self.globals["FNR"] = ("" if path == "-" else latin(path)), 0.0
            return True
        return False

    def assigned(self, operand: str) -> bool:
        """True for an operand that is an assignment, which is carried out."""
        name, equals, value = operand.partition("=")
        if not equals or not (name.isascii() and name.isidentifier()):
            return False
        self.set(name, Typed(unescaped(latin(value))))
        return True

    def execute(self) -> Main:
        """Run the program; returns its exit code."""
        program = self.program
        try:
            for block in program.begin:
                yield from self.run(block)
            if program.rules or program.end:
                yield from self._rules()
        except _Leave as leave:
            _check(leave, "exit")
        try:
            for block in program.end:
                yield from self.run(block)
        except _Leave as leave:
            _check(leave, "exit")
        yield from self.tool.flush()
        for name in tuple(self.ends):
            yield from self.close(name)
        return self.code

    def _rules(self) -> Steps:
        active = [False] * len(self.program.rules)
        while (text := (yield from self.next_record())) is not None:
            self.set_record(text)
            for name in ("NR", "FNR"):
                self.globals[name] = number_of(self.globals[name]) + 1
            yield from self.pause()
            try:
                for at, (first, last, block) in enumerate(self.program.rules):
                    if last is None:
                        target = first is None or is_true((yield from self.get(first)))
                    else:
                        assert first is not None
                        target = active[at] or is_true((yield from self.get(first)))
                        active[at] = target and not is_true((yield from self.get(last)))
                    if target and block is None:
                        yield from self._print("print", (), "", None)
                    elif target and block is not None:
                        yield from self.run(block)
            except _Leave as leave:
                if leave.kind == "nextfile":
                    self.skip_file()
                else:
                    _check(leave, "next")


def _check(leave: _Leave, kind: str) -> None:
    if leave.kind == "exit" and kind != "exit":
        raise leave
    if leave.kind != kind:
        raise Failed(f"{leave.kind} in a wrong place", 2)


def _is_array(node: Any, name: str, functions: Any, depth: int = 0) -> bool:
    """True if a function uses a parameter as an array."""
    if isinstance(node, tuple):
        return any(_is_array(one, name, functions, depth) for one in node)
    if not isinstance(node, Node):
        return False
    parts = node.parts
    if (node.kind, parts[:1]) in (("element", (name,)), ("delete", (name,))):
        return True
    if node.kind in ("in", "for in") and parts[1] == name:
        return True
    if (
        node.kind == "builtin"
        and parts[0] == "split"
        and parts[1][1].kind == "name"
        and parts[1][1].parts[0] == name
    ):
        return True
    if node.kind == "call" and parts[0] in functions and depth < 4:
        names, body = functions[parts[0]]
        for parameter, entry in zip(names, parts[1], strict=False):
            passed = entry.kind == "name" and entry.parts[0] == name
            if passed and body is not node and _is_array(body, parameter, functions, depth + 1):
                return True
    return any(_is_array(one, name, functions, depth) for one in parts)


def awk(tool: Tool) -> Main:
    """Run a program for each line: -F separator, -v NAME=VALUE, -f FILE with the program."""
    options = tool.options("+F:v:f:", {"field-separator": "F", "assign": "v", "file": "f"}, code=2)
    operands = list(options.rest)
    if "f" in options:
        pieces = []
        for path in options.all("f"):
            try:
                pieces.append(tool.files.read(path, tool.process, STRING_MAX).decode("latin-1"))
            except FileError as error:
                raise Failed(f"cannot open {path} ({error.text})", 2) from None
        text = "\n".join(pieces)
    elif operands:
        text = latin(operands.pop(0))
    else:
        raise Usage("usage: awk [-F fs][-v var=value] [prog | -f progfile] [file ...]", 2)
    run = Awk(tool, text)
    if "F" in options:
        entry = options.last("F")
        run.set("FS", "\t" if entry == "t" else unescaped(latin(entry)))
    for one in options.all("v"):
        if not run.assigned(one):
            raise Failed(f"improper assignment: -v {one}", 2)
    run.operands = operands
    words = ["awk", *operands]
    run.globals["ARGC"] = float(len(words))
    run.globals["ARGV"] = {str(at): Typed(latin(word)) for at, word in enumerate(words)}
    return (yield from run.execute())
