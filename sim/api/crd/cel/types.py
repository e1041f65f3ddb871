"""The types of CEL, and how they unify.

Holds: types are values; `Bound` grows only, so that a copy made before a trial is the state to
return to.

Mirrors  cel-go v0.12 checker/{types,mapping,errors}.go.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple


class Type(NamedTuple):
    """A type.

    kind: one of dyn, error, none, null, primitive, known (a well-known type), list, map, object,
        type, param
    """

    kind: str
    name: str = ""
    args: tuple[Type, ...] = ()


DYN, ERROR, NULL = Type("dyn"), Type("error"), Type("null", "null_type")
NONE = Type("none")  # of a part that has got no type, after an error
INT, UINT, DOUBLE = Type("primitive", "int"), Type("primitive", "uint"), Type("primitive", "double")
BOOL, STRING, BYTES = Type("primitive", "bool"), Type("primitive", "string"), Type("primitive", "bytes")
DURATION, TIMESTAMP = Type("known", "duration"), Type("known", "timestamp")
URL = Type("object", "kubernetes.URL")
_A, _B = Type("param", "A"), Type("param", "B")


def list_of(item: Type) -> Type:
    """The type of a list."""
    return Type("list", "", (item,))


def map_of(key: Type, value: Type) -> Type:
    """The type of a map."""
    return Type("map", "", (key, value))


def type_of(inner: Type) -> Type:
    """The type of a type."""
    return Type("type", "", (inner,))


def text_of(kind: Type) -> str:
    """The name of a type in messages."""
    inner = ", ".join(map(text_of, kind.args))
    if kind.kind in ("list", "map"):
        return f"{kind.kind}({inner})"
    if kind.kind == "type":
        return f"type({inner})" if inner else "type"
    plain = {"dyn": "dyn", "error": "!error!", "null": "null", "none": "<nil>"}
    return plain.get(kind.kind, kind.name)


_PROTO_NAMES = {"int": "INT64", "uint": "UINT64"}


def proto_text(kind: Type) -> str:
    """A type as the text form of its protobuf message, which one message of upstream shows."""
    if kind.kind == "primitive":
        return f"primitive:{_PROTO_NAMES.get(kind.name, kind.name.upper())}"
    if kind.kind == "known":
        return f"well_known:{kind.name.upper()}"
    if kind.kind == "list":
        return f"list_type:{{elem_type:{{{proto_text(kind.args[0])}}}}}"
    if kind.kind == "null":
        return "null:NULL_VALUE"
    if kind.kind == "type":
        return f"type:{{{''.join(map(proto_text, kind.args))}}}"
    return {"object": f"message_type:{kind.name!r}", "dyn": "dyn:{}"}.get(kind.kind, text_of(kind))


def signature(args: Sequence[Type], method: bool) -> str:
    """The types of the arguments of a call in messages."""
    head = f"{text_of(args[0])}." if method else ""
    return f"{head}({', '.join(map(text_of, args[1:] if method else args))})"


def is_dyn_or_error(kind: Type) -> bool:
    """Return True if any operation on the type is left to the evaluation."""
    return kind.kind in ("dyn", "error")


class Bound:
    """The types that type parameters stand for, by the parameters' names."""

    def __init__(self, found: dict[str, Type] | None = None) -> None:
        self.found: dict[str, Type] = dict(found or {})
        self._made = 0

    def fresh(self) -> Type:
        """A new parameter."""
        self._made += 1
        return Type("param", f"_var{self._made - 1}")

    def replaced(self, kind: Type, free_is_dyn: bool = False) -> Type:
        """A type with its parameters replaced as far as they are known."""
        if kind.kind == "param":
            known = self.found.get(kind.name)
            if known is not None:
                return self.replaced(known, free_is_dyn)
            return DYN if free_is_dyn else kind
        if not kind.args:
            return kind
        return kind._replace(args=tuple(self.replaced(one, free_is_dyn) for one in kind.args))

    def accepts(self, given: Iterable[Type], wanted: Iterable[Type]) -> bool:
        """Return True if the types of arguments fit those of a function; remember what follows."""
        first, second = list(given), list(wanted)
        if len(first) != len(second):
            return False
        before = dict(self.found)
        if all(self._fits(a, b) for a, b in zip(first, second, strict=True)):
            return True
        self.found = before
        return False

    def _fits(self, given: Type, wanted: Type) -> bool:
        if wanted.kind == "param":
            valid, known = self._stands_for(given, wanted)
            if valid or known:
                return valid
        if given.kind == "param":
            return self._stands_for(wanted, given)[0]
        if is_dyn_or_error(given) or is_dyn_or_error(wanted):
            return True
        if given.kind == "null":
            return wanted.kind in ("object", "null", "known")
        if given.kind != wanted.kind:
            return False
        if given.kind == "type":
            return True
        if given.kind in ("list", "map"):
            return all(self._fits(a, b) for a, b in zip(given.args, wanted.args, strict=True))
        return given == wanted and given.kind != "none"

    def _stands_for(self, kind: Type, param: Type) -> tuple[bool, bool]:
        """Whether a parameter can stand for a type, and whether it stands for one already."""
        if kind == param:
            return True, True
        known = self.found.get(param.name)
        if known is not None:
            if kind == known:
                return True, True
            if not self._fits(kind, known):
                return False, True
            general = most_general(kind, known)
            if not self._occurs(param, general):
                self.found[param.name] = general
            return True, True
        if self._occurs(param, kind):
            return False, False
        self.found[param.name] = kind
        return True, False

    def _occurs(self, param: Type, within: Type) -> bool:
        if within == param:
            return True
        if within.kind == "param":
            known = self.found.get(within.name)
            return known is not None and self._occurs(param, known)
        return any(self._occurs(param, one) for one in within.args)


def most_general(one: Type, other: Type) -> Type:
    """The more general of two types that unify."""
    return one if _is_more_general(one, other) else other


def _is_more_general(one: Type, other: Type) -> bool:
    if one.kind in ("dyn", "param"):
        return True
    if other.kind in ("dyn", "param") or one.kind != other.kind:
        return False
    if one.kind in ("list", "map"):
        return all(_is_more_general(a, b) for a, b in zip(one.args, other.args, strict=True))
    return one.kind == "type" or one == other
