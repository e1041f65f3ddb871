"""Errors that show values as Go remembers them from a body.

Turns field errors about an object into those about the body that it was decoded from: a quantity
that was not canonical has no text, and an empty map or list is not the same as none.

Mirrors  apimachinery v1.25 pkg/api/resource/quantity.go (the cached text of a quantity);
         golang encoding/json (empty and nil maps and slices).
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Callable, Mapping
from typing import Any

import msgspec

from sim.api.go.printing import QUANTITY, TIME, GoValue, go_syntax, time_text
from sim.api.schema.field_validation import Sent
from sim.api.types import Obj
from sim.api.validation.errors import Errors
from sim.patterns import pattern

# Places where upstream's rules find by reflection whether a field is set, also to an empty list.
_TELLING = pattern(
    r"(?:.+\.)?ephemeralContainers\[\d+\]\.(?:ports|resources\.(?:limits|requests))"
    r"|(?:.+\.)?ephemeral\.volumeClaimTemplate\.metadata\.\w+"
)
# The same by plural: what an update compares by reflection, or a rule asks for nil.
_TELLING_IN = {
    "storageclasses": re.compile(r"parameters"),
    "configmaps": re.compile(r"binaryData"),
    "csinodes": re.compile(r"spec\.drivers\[\d+\]\.topologyKeys"),
    "ingresses": re.compile(r"spec\.rules"),
    "secrets": re.compile(r"data"),
    "persistentvolumeclaims": re.compile(r"spec\.(?:accessModes|resources\.requests)"),
    "customresourcedefinitions": re.compile(r".*\.dependencies"),
}
_QUANTITY = pattern(
    r'resource\.Quantity\{i:[^{}]*\{[^{}]*\}, d:[^{}]*\{[^{}]*\}, s:"[^"]*", Format:"[^"]*"\}'
)  # in the text of a value
_STEP = pattern(r"\.?([^.\[]+)|\[(\d+)\]")


def as_judged(plural: str, obj: Obj, sent: Sent | None) -> Obj:
    """The object with the empty lists and maps of the body that rules distinguish from none.

    plural: of the kind of the object
    """
    pattern = _TELLING_IN.get(plural, _TELLING)
    telling = [path for path in sent.emptied if pattern.fullmatch(path)] if sent is not None else []
    made: Obj = _with_empty(obj, _tree(telling)) if telling else obj
    return made


def with_differences(errors: Errors, obj: Obj, sent: Sent, judge: Callable[[Obj], Errors]) -> Errors:
    """The errors with the quantities, empty lists and maps of the body in the differences that they
    print.

    judge: gives the errors of an object; rules take an empty list for none, the text does not
    """
    if not (sent.emptied or sent.quantities) or not any("\n" in error.detail for error in errors):
        return errors
    written = _as_written(obj, sent.quantities) if sent.quantities else obj
    if sent.emptied:
        written = _with_empty(written, _tree(sorted(sent.emptied)))
    again = [error for error in judge(written) if "\n" in error.detail]
    texts: dict[str, list[str]] = {}  # a field may have several
    for error in again:
        texts.setdefault(error.field, []).append(error.detail)
    return [
        msgspec.structs.replace(error, detail=texts[error.field].pop(0))
        if "\n" in error.detail and texts.get(error.field)
        else error
        for error in errors
    ]


def as_sent(errors: Errors, sent: Sent) -> Errors:
    """The errors with values as the body held them."""
    if sent.quantities or sent.emptied:
        errors = _with_forms(errors, sent)
    return _with_fractions(errors, sent.times) if sent.times else errors


def _with_forms(errors: Errors, sent: Sent) -> Errors:
    """The errors with the quantities, empty lists and maps of the body."""
    quantities = {
        go_syntax(QUANTITY, text): go_syntax(QUANTITY, given) for text, given in sent.quantities.items()
    }
    paths = sorted(sent.emptied)
    known: dict[tuple[int, str], str] = {}  # many errors may show one value

    def text_of(given: GoValue, field: str) -> str:
        if (id(given), field) not in known:
            known[id(given), field] = _text(given, field, paths, quantities)
        return known[id(given), field]

    return [
        error
        if error.given is None
        else msgspec.structs.replace(error, value=text_of(error.given, error.field))
        for error in errors
    ]


def _with_fractions(errors: Errors, times: Mapping[str, str]) -> Errors:
    """The errors with the fractions of seconds of times, of which objects hold whole ones."""
    texts = {time_text(held): time_text(given) for held, given in times.items()}
    syntax = {go_syntax(TIME, held): go_syntax(TIME, given) for held, given in times.items()}
    moments = re.compile("|".join(map(re.escape, syntax)))

    def shown(value: str) -> str:
        if value in texts:
            return texts[value]
        return moments.sub(lambda found: syntax[found[0]], value) if "time.Date(" in value else value

    return [
        msgspec.structs.replace(error, value=shown(error.value)) if error.value else error for error in errors
    ]


def _text(given: GoValue, field: str, paths: list[str], quantities: dict[str, str]) -> str:
    """The text of a value with what is below its field in the body."""
    start = end = bisect_left(paths, field)
    while end < len(paths) and paths[end].startswith(field):
        end += 1
    below = [path[len(field) :] for path in paths[start:end] if path[len(field) :][:1] in (".", "[", "")]
    text = GoValue(given.kind, _with_empty(given.value, _tree(below))).text if below else given.text
    if not quantities or f"{QUANTITY}{{" not in text:
        return text
    return _QUANTITY.sub(lambda found: quantities.get(found[0], found[0]), text)


def _as_written(value: Any, quantities: Mapping[str, str]) -> Any:
    """The value with its quantities as the body held them."""
    if isinstance(value, dict):
        return {key: _as_written(below, quantities) for key, below in value.items()}
    if isinstance(value, list):
        return [_as_written(below, quantities) for below in value]
    return quantities.get(value, value) if isinstance(value, str) else value


_Tree = dict[str | int, "_Tree"]


def _tree(paths: list[str]) -> _Tree:
    """The keys and positions of paths as a tree; nothing is below the end of a path."""
    root: _Tree = {}
    for path in paths:
        at = root
        for key, position in _STEP.findall(path):
            at = at.setdefault(key or int(position), {})
    return root


def _with_empty(value: Any, tree: _Tree) -> Any:
    """The value with an empty list or map at each end of the tree where it has none."""
    if not tree:
        return {} if value is None else value
    if isinstance(value, dict):
        below = {step: _with_empty(value.get(step), rest) for step, rest in tree.items()}
        return value | {step: each for step, each in below.items() if each is not None}
    if isinstance(value, list):
        return [_with_empty(each, tree[at]) if at in tree else each for at, each in enumerate(value)]
    return value
