"""Variables, fields and expressions of awk.

Mirrors  POSIX.1-2017 XCU awk: Variables and Special Variables, Expressions; messages are those of
         mawk.
Differs  rand() repeats from run to run; a run holds at most `HELD_MAX` characters and `ARRAY_MAX`
         elements.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from actors.node.programs.commands.awk.functions import computed, match, pattern_of, replaced, whole
from actors.node.programs.commands.awk.parse import Node
from actors.node.programs.commands.awk.records import FIELDS_MAX, ere, fields_of
from actors.node.programs.commands.awk.values import (
    STRING_MAX,
    Typed,
    Value,
    compared,
    formatted,
    is_true,
    number_of,
    string_of,
)
from actors.node.programs.commands.names import now
from actors.node.programs.commands.patterns import Pattern
from actors.node.programs.commands.system import date_text
from actors.node.programs.commands.tool import Failed, Tool, to_bytes
from sim.units import SECOND

HELD_MAX = 16 << 20
ARRAY_MAX = 65_536

Array = dict[str, Value]


class State:
    """The variables and fields of a run, and expressions that do not wait.

    held: characters of all variables; elements: of all arrays
    """

    def __init__(self, tool: Tool) -> None:
        self.tool = tool
        self.globals: dict[str, Any] = {
            "FS": " ", "OFS": " ", "ORS": "\n", "RS": "\n", "SUBSEP": "\x1c", "CONVFMT": "%.6g", "OFMT": "%.6g", "NR": 0.0,
            "FNR": 0.0, "RSTART": 0.0, "RLENGTH": -1.0, "FILENAME": "",
        }  # fmt: skip
        self.globals["ENVIRON"] = {latin(name): Typed(latin(one)) for name, one in tool.process.env.items()}
        self.frames: list[dict[str, Any]] = []
        self.fields: list[Value] = [Typed("")]
        self.split = True
        self.held = self.elements = 0
        self.seed, self.random = 0.0, 1

    # --- variables --------------------------------------------------------------------------------

    def form(self) -> str:
        """CONVFMT."""
        return string_of(self.globals["CONVFMT"])

    def text(self, value: Value) -> str:
        """A value as a string."""
        return value if type(value) is str else string_of(value, self.form())

    def array(self, name: str) -> Array:
        """The array of a name, which is made if need be.  Raises Failed."""
        scope = self.frames[-1] if self.frames and name in self.frames[-1] else self.globals
        result = scope.get(name)
        if result is None:
            result = scope[name] = {}
        if not isinstance(result, dict):
            raise Failed(f"can't use scalar {name} as array", 2)
        return result

    def key(self, subscripts: tuple[Node, ...]) -> str:
        """The key of an element."""
        return self.text(self.globals["SUBSEP"]).join(self.text(self.value(one)) for one in subscripts)

    def _count(self, old: Value, new: Value) -> None:
        self.held += (len(new) if isinstance(new, str) else 0) - (len(old) if isinstance(old, str) else 0)
        if isinstance(new, str) and len(new) > STRING_MAX:
            raise Failed("string too long", 2)
        if self.held > HELD_MAX or self.elements > ARRAY_MAX:
            raise Failed("out of memory", 2)

    def store(self, array: Array, key: str, value: Value) -> None:
        """Set an element."""
        if key not in array:
            self.elements += 1
            self._count(None, key)
        self._count(array.get(key), value)
        array[key] = value

    def assign(self, target: Node, value: Value) -> None:
        """Set what is on the left of an assignment."""
        if target.kind == "element":
            self.store(self.array(target.parts[0]), self.key(target.parts[1]), value)
        elif target.kind == "field":
            self.set_field(whole(self.value(target.parts[0])), value)
        else:
            self.set(target.parts[0], value)

    def set(self, name: str, value: Value) -> None:
        """Set a variable."""
        if name == "NF":
            self.set_count(whole(value))
            return
        scope = self.frames[-1] if self.frames and name in self.frames[-1] else self.globals
        old = scope.get(name)
        if isinstance(old, dict):
            raise Failed(f"can't use array {name} as scalar", 2)
        self._count(old, value)
        scope[name] = value

    # --- fields -----------------------------------------------------------------------------------

    def set_record(self, text: str) -> None:
        """Take a record."""
        self.fields, self.split = [Typed(text)], False

    def parts(self) -> list[Value]:
        """The record and its fields."""
        if not self.split:
            self.split = True
            text, separator = string_of(self.fields[0]), self.text(self.globals["FS"])
            lines = self.text(self.globals["RS"]) == "" and separator != " "
            result = fields_of(text, f"({separator})|\n" if lines else separator)
            self.fields += [Typed(one) for one in result]
        return self.fields

    def field(self, number: int) -> Value:
        """A field; $0 is the record."""
        if number < 0:
            raise Failed(f"negative field index ${number}", 2)
        if number == 0:
            return self.fields[0]
        result = self.parts()
        return result[number] if number < len(result) else None

    def set_field(self, number: int, value: Value) -> None:
        """Set a field, and the record from all of them."""
        if number == 0:
            self.set_record(self.text(value))
            return
        if not 0 < number <= FIELDS_MAX:
            raise Failed(f"bad field index ${number}", 2)
        result = self.parts()
        result += [Typed("")] * (number + 1 - len(result))
        result[number] = value
        self._join()

    def set_count(self, count: int) -> None:
        """Set NF."""
        if not 0 <= count <= FIELDS_MAX:
            raise Failed("bad number of fields", 2)
        result = self.parts()
        self.fields = (result + [Typed("")] * (count + 1 - len(result)))[: count + 1]
        self._join()

    def _join(self) -> None:
        text = self.text(self.globals["OFS"]).join(self.text(one) for one in self.fields[1:])
        if len(text) > STRING_MAX:
            raise Failed("string too long", 2)
        self.fields[0] = Typed(text)

    # --- expressions that do not wait -------------------------------------------------------------

    def value(self, node: Node) -> Value:
        """The value of an expression."""
        return VALUES[node.kind](self, node)

    def pattern(self, node: Node) -> Pattern:
        """A pattern, in slashes or as a string."""
        return ere(node.parts[0]) if node.kind == "ere" else pattern_of(self.text(self.value(node)))

    def builtin(self, node: Node) -> Value:
        """A function of the language that does not wait."""
        name, entry = node.parts
        if name in ("sub", "gsub", "gensub"):
            return self._replace(name, entry)
        if name == "split":
            return self._split(entry)
        if name == "match":
            result = match(self.text(self.value(entry[0])), self.pattern(entry[1]))
            self.globals["RSTART"], self.globals["RLENGTH"] = result
            return result[0]
        if name == "length":
            is_array = (
                entry and entry[0].kind == "name" and isinstance(self.variable(entry[0].parts[0]), dict)
            )
            if is_array:
                return float(len(self.array(entry[0].parts[0])))
            return float(len(self.text(self.value(entry[0]) if entry else self.field(0))))
        values = [self.value(one) for one in entry]
        if name == "sprintf":
            return formatted(self.text(values[0]), values[1:], self.form())
        if name in ("rand", "srand", "systime", "strftime"):
            return self._of_surroundings(name, values)
        return computed(name, values, [self.text(one) for one in values])

    def variable(self, name: str) -> Any:
        """What a name stands for: a value or an array."""
        if self.frames and name in self.frames[-1]:
            return self.frames[-1][name]
        return self.globals.get(name)

    def _of_surroundings(self, name: str, values: list[Value]) -> Value:
        if name == "rand":  # repeatable
            self.random = (self.random * 1103515245 + 12345) & 0x7FFFFFFF
            return self.random / 0x80000000
        if name == "srand":
            before, self.seed = self.seed, number_of(values[0]) if values else float(now(self.tool) // SECOND)
            self.random = whole(self.seed) & 0x7FFFFFFF
            return before
        if name == "systime":
            return float(now(self.tool) // SECOND)
        at_us = whole(values[1]) * SECOND if len(values) > 1 else now(self.tool)
        return date_text(self.text(values[0]) if values else "%a %b %e %H:%M:%S UTC %Y", at_us)

    def _replace(self, name: str, given: tuple[Node, ...]) -> Value:
        pattern, replacement = self.pattern(given[0]), self.text(self.value(given[1]))
        if name == "gensub":
            how = self.value(given[2])
            which = 0 if self.text(how)[:1] in ("g", "G") else max(whole(how), 1)
            text = self.text(self.value(given[3]) if len(given) > 3 else self.field(0))
            return replaced(pattern, replacement, text, which, groups=True)[0]
        target = given[2] if len(given) > 2 else Node("field", Node("number", 0.0))
        text, count = replaced(pattern, replacement, self.text(self.value(target)), int(name == "sub"))
        if count and target.kind in ("name", "field", "element"):
            self.assign(target, text)
        return float(count)

    def _split(self, given: tuple[Node, ...]) -> Value:
        text = self.text(self.value(given[0]))
        if given[1].kind != "name":
            raise Failed("split needs an array", 2)
        array = self.array(given[1].parts[0])
        node = given[2] if len(given) > 2 else None
        separator = self.text(self.globals["FS"]) if node is None else self.text(self.value(node))
        if node is not None and node.kind == "ere":
            separator = node.parts[0] if len(node.parts[0]) > 1 else f"[{node.parts[0]}]"
        self.clear(array)
        result = fields_of(text, separator)
        for at, one in enumerate(result, 1):
            self.store(array, str(at), Typed(one))
        return float(len(result))

    def clear(self, array: Array) -> None:
        """Remove all elements."""
        self.elements -= len(array)
        self.held -= sum(len(key) + (len(one) if isinstance(one, str) else 0) for key, one in array.items())
        array.clear()


def latin(text: str) -> str:
    """A word as awk's text: one character a byte."""
    return to_bytes(text).decode("latin-1")


def path_of(text: str) -> str:
    """awk's text as a word."""
    return text.encode("latin-1").decode("utf-8", "surrogateescape")


# --- values ---------------------------------------------------------------------------------------


def _name(run: State, node: Node) -> Value:
    name = node.parts[0]
    if name == "NF":
        return float(len(run.parts()) - 1)
    result = run.variable(name)
    if isinstance(result, dict):
        raise Failed(f"can't use array {name} as scalar", 2)
    return result  # type: ignore[no-any-return]


def _element(run: State, node: Node) -> Value:
    array, key = run.array(node.parts[0]), run.key(node.parts[1])
    if key not in array:
        run.store(array, key, None)
    return array[key]


def _assign(run: State, node: Node) -> Value:
    value = run.value(node.parts[1])
    run.assign(node.parts[0], value)
    return value


def _step(run: State, node: Node) -> Value:
    mark, target, before = node.parts
    old = number_of(run.value(target))
    new = old + 1 if mark == "++" else old - 1
    run.assign(target, new)
    return new if before else old


def _binary(run: State, node: Node) -> Value:
    mark, left, right = (
        node.parts[0],
        number_of(run.value(node.parts[1])),
        number_of(run.value(node.parts[2])),
    )
    try:
        match mark:
            case "+":
                return left + right
            case "-":
                return left - right
            case "*":
                return left * right
            case "/":
                return left / right
            case "%":
                return left - right * float(int(left / right))
            case _:
                result = left**right
                return float(result.real)
    except ZeroDivisionError:
        raise Failed("division by zero", 2) from None
    except OverflowError:
        return float("inf")


def _unary(run: State, node: Node) -> Value:
    value = run.value(node.parts[1])
    if node.parts[0] == "!":
        return float(not is_true(value))
    return -number_of(value) if node.parts[0] == "-" else number_of(value)


def _compare(run: State, node: Node) -> Value:
    result = compared(run.value(node.parts[1]), run.value(node.parts[2]), run.form())
    return float(
        {
            "<": result < 0, "<=": result <= 0, "==": result == 0, "!=": result != 0, ">": result > 0, ">=": result >= 0
        }[node.parts[0]]
    )  # fmt: skip


def _matches(run: State, node: Node) -> Value:
    text = run.text(run.value(node.parts[1])).encode("latin-1")
    return float(run.pattern(node.parts[2]).found(text) == (node.parts[0] == "~"))


def _condition(run: State, node: Node) -> Value:
    return run.value(node.parts[1] if is_true(run.value(node.parts[0])) else node.parts[2])


def _join(run: State, node: Node) -> Value:
    text = run.text(run.value(node.parts[0])) + run.text(run.value(node.parts[1]))
    if len(text) > STRING_MAX:
        raise Failed("string too long", 2)
    return text


VALUES: dict[str, Callable[[State, Node], Value]] = {
    "number": lambda run, node: node.parts[0], "string": lambda run, node: node.parts[0], "name": _name,
    "value": lambda run, node: node.parts[0], "group": lambda run, node: run.value(node.parts[0]),
    "ere": lambda run, node: float(ere(node.parts[0]).found(run.text(run.field(0)).encode("latin-1"))),
    "field": lambda run, node: run.field(whole(run.value(node.parts[0]))), "element": _element, "assign": _assign,
    "step": _step, "binary": _binary, "unary": _unary, "compare": _compare, "matches": _matches, "condition": _condition,
    "join": _join, "builtin": lambda run, node: run.builtin(node),
    "in": lambda run, node: float(run.key(node.parts[0]) in run.array(node.parts[1])),
    "and": lambda run, node: float(is_true(run.value(node.parts[0])) and is_true(run.value(node.parts[1]))),
    "or": lambda run, node: float(is_true(run.value(node.parts[0])) or is_true(run.value(node.parts[1]))),
}  # fmt: skip
