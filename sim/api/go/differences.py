"""The difference of two values as upstream prints it into refusals of updates.

Turns two values of a Go type into text: fields that differ are marked with "-" and "+", a few equal
neighbours are shown in short, and the others are counted.

Mirrors  go-cmp v0.5.6 cmp/report_compare.go, cmp/report_reflect.go.
Differs  texts of 64 letters or more, and lists of numbers, are not shown in parts; of records that
         differ in a row, at most `ROW_MAX` are shown, and the others counted.
"""

from __future__ import annotations

from itertools import groupby
from typing import Any, NamedTuple

from sim.api.go.comparing import ABSENT, NODE_US, Node, fields_with_values, form_of, is_zero, item_type
from sim.api.go.diff_text import ELLIPSIS, NIL, Record, Text, Wrap, laid_out, size
from sim.api.go.printing import QUANTITY, time_text
from sim.pauses import spent
from sim.units import NANO_PER_MILLI, go_quote, quantity_nano, quantity_parts, quantity_text

CONTEXT = 2  # equal records before and behind those that differ
ROW_MAX = 500  # upstream has no bound, and needs seconds for 20,000
PRESETS = 6  # more and more words, while both sides look alike
WORDS_MAX = 16
_BOTH, _SAME, _OLD, _NEW = "", " ", "-", "+"  # what is shown of a pair
_EMIT, _ELIDE, _AUTO = range(3)  # whether a value is shown with its type
DECIMAL = "resource.infDecAmount"
_QUOTED_NAMES = ("core.ResourceName",)  # names with a method String
_STATES = ("identical", "removed", "inserted", "modified")


class _Display(NamedTuple):
    """How values are shown.

    side: which of a pair; types: one of _EMIT, _ELIDE and _AUTO
    words: how much is shown, 0 to 16; plain: True if methods String are not used
    """

    side: str = _BOTH
    types: int = _EMIT
    words: int = 3
    plain: bool = False


def difference(kind: str, old: Any, new: Any) -> str:
    """The text of a difference; "" for equal values."""
    node = Node(kind, old, new)
    return laid_out(_pair(node, _Display())) if node.differ else ""


def _typed(kind: str, text: Text, display: _Display) -> Text:
    """A text behind the name of its type, if that is shown."""
    if display.types == _ELIDE:
        return text
    if display.types == _AUTO and form_of(kind) in ("leaf", "pointer") and kind != QUANTITY:
        return text
    if display.types == _AUTO and (text == NIL or display.side == _SAME):
        return text
    name = f"({kind})" if kind.startswith("*") else kind
    if isinstance(text, Wrap) and text.prefix[:1] + text.suffix[-1:] in ("{}", "()"):
        return Wrap(name, text, "")
    return Wrap(name, Wrap("(", text, ")"), "")


# --- pairs ----------------------------------------------------------------------------------------


def _pair(node: Node, display: _Display) -> Text:
    """A pair of values, or one side of it."""
    spent(NODE_US)
    display = display._replace(words=1 if display.side == _SAME else max(3, display.words))
    if node.depth == 0:
        if display.side == _OLD:
            return _value(node.kind, node.old, display)
        if display.side == _NEW:
            return _value(node.kind, node.new, display)
        old, new = _value(node.kind, node.old, display), _value(node.kind, node.new, display)
        return old if size(old) < size(new) else new
    if form_of(node.kind) == "pointer":
        return Wrap("&", _pair(node.below[0], display), "")
    return _typed(node.kind, _records(node, display), display)


def _records(node: Node, display: _Display) -> Text:
    """The members of a pair of structs, lists or maps."""
    form = form_of(node.kind)
    most = ((1 << display.words) >> 1) << 2 if display.side == _SAME else (1 << display.words) << 1
    display = display._replace(types=_AUTO if form == "struct" else _ELIDE, words=max(0, display.words - 1))
    list_: list[Record] = []
    if display.side != _BOTH:
        for below in node.below:
            if len(list_) == most:
                list_.append(Record(ELLIPSIS, comma=False))
                break
            if form == "struct" and _is_blank(below, display.side):
                continue
            if _side_is_absent(below, display.side):
                continue
            list_.append(Record(_pair(below, display), _key(node, below)))
        return Wrap("{", list_, "}")
    groups = [list(group) for _, group in groupby(node.below, lambda below: below.differ > 0)]
    shown, rest = 0, [0, 0, 0, 0]
    for at, group in enumerate(groups):
        if shown >= most:
            rest = [a + b for a, b in zip(rest, _counts(group), strict=True)]
        elif group[0].differ:
            for below in group[:ROW_MAX]:
                list_ += _changed(node, below, display)
            shown += len(group)
            rest = [a + b for a, b in zip(rest, _counts(group[ROW_MAX:]), strict=True)]
        else:
            list_ += _context(node, group, display, at > 0, at < len(groups) - 1)
    if any(rest):
        list_.append(Record(ELLIPSIS, comment=_stated(form, rest), comma=False))
    return Wrap("{", list_, "}")


def _is_blank(node: Node, side: str) -> bool:
    zeros = [is_zero(node.kind, value) for value in (node.old, node.new)]
    return zeros[0] if side == _OLD else zeros[1] if side == _NEW else any(zeros)


def _side_is_absent(node: Node, side: str) -> bool:
    return (node.old if side == _OLD else node.new) is ABSENT


def _counts(group: list[Node]) -> list[int]:
    counts = [0, 0, 0, 0]
    for node in group:
        at = 0 if not node.differ else 1 if node.new is ABSENT else 2 if node.old is ABSENT else 3
        counts[at] += 1
    return counts


def _stated(form: str, counts: list[int]) -> str:
    """The words about records that are left out."""
    name = {"struct": "field", "list": "element", "map": "entry"}[form]
    if sum(counts) > 1:
        name = "entries" if name == "entry" else f"{name}s"
    parts = [f"{count} {state}" for count, state in zip(counts, _STATES, strict=True) if count]
    joined = " and ".join(parts) if len(parts) < 3 else f"{', '.join(parts[:-1])}, and {parts[-1]}"
    return f"{joined} {name}"


def _context(node: Node, group: list[Node], display: _Display, before: bool, behind: bool) -> list[Record]:
    """Equal records: those next to others in short, the number of the rest."""
    low = min(CONTEXT, len(group)) if before else 0
    high = min(CONTEXT, len(group) - low) if behind else 0
    if len(group) - low - high == 1:
        high += 1
    same, left_out = display._replace(side=_SAME), len(group) - low - high
    near = group if not left_out else [*group[:low], *group[len(group) - high :]]
    made = [Record(_pair(each, same), _key(node, each)) for each in near]
    if left_out:
        comment = _stated(form_of(node.kind), [left_out, 0, 0, 0])
        made.insert(low, Record(ELLIPSIS, comment=comment, comma=False))
    return made


def _changed(node: Node, below: Node, display: _Display) -> list[Record]:
    """A record that differs: two lines, or one with the differences inside."""
    key = _key(node, below)
    if below.count != below.depth:
        return [Record(_pair(below, display), key)]
    old, new = _sides(below, display)
    for preset in range(PRESETS + 1):
        if old is None or new is None or old != new:
            break
        words = min(WORDS_MAX, display.words + 2 * preset)
        old, new = _sides(below, display._replace(words=words, plain=preset > 0))
    made = [] if old is None else [Record(old, key, _OLD)]
    return made if new is None else [*made, Record(new, key, _NEW)]


def _sides(node: Node, display: _Display) -> tuple[Text | None, Text | None]:
    old = None if node.old is ABSENT else _pair(node, display._replace(side=_OLD))
    return old, None if node.new is ABSENT else _pair(node, display._replace(side=_NEW))


def _key(node: Node, below: Node) -> str:
    form = form_of(node.kind)
    return _map_key(node.kind, below.key) if form == "map" else below.key


def _map_key(kind: str, key: str) -> str:
    prefix = "s" if kind in ("core.ResourceList", "map[core.ResourceName]resource.Quantity") else ""
    return prefix + _quoted(key)


# --- single values --------------------------------------------------------------------------------


def _value(kind: str, value: Any, display: _Display) -> Text:
    """One value."""
    form = form_of(kind)
    if not display.plain and (named := _by_method(kind, value)) is not None:
        return _text(named, display, "s")
    if form == "pointer":
        return NIL if value is None else Wrap("&", _value(kind[1:], value, display), "")
    return _typed(kind, _inside(kind, form, value, display), display)


def _inside(kind: str, form: str, value: Any, display: _Display) -> Text:
    if form == "leaf" and kind != QUANTITY:
        return _leaf(kind, value, display)
    if form in ("list", "map") and value is None:
        return NIL
    most, below = ((1 << display.words) >> 1) << 2, display._replace(words=max(0, display.words - 1))
    list_: list[Record] = []
    for key, inner, member in _members(kind, form, value):
        if form in ("struct", "leaf") and is_zero(inner, member):
            continue
        if len(list_) == most:
            list_.append(Record(ELLIPSIS, comma=False))
            break
        types = _AUTO if form in ("struct", "leaf") else _ELIDE
        list_.append(Record(_value(inner, member, below._replace(types=types)), key))
    return Wrap("{", list_, "}")


def _members(kind: str, form: str, value: Any) -> list[tuple[str, str, Any]]:
    """The key, type and value of each member."""
    if kind == QUANTITY:
        return _quantity(value)
    if form == "struct":
        return [(field.name, field.type, each) for field, each in fields_with_values(kind, value)]
    inner = item_type(kind)
    if form == "map":
        return [(_map_key(kind, key), inner, value[key]) for key in sorted(value)]
    return [("", inner, each) for each in value or ()]


def _quantity(value: Any) -> list[tuple[str, str, Any]]:
    given = 0 if value is None else value
    whole, scale, text, style = quantity_parts(given)
    if scale is None:
        # Defaults round it, which drops its text.
        milli = -(-quantity_nano(given) // NANO_PER_MILLI)
        return [("d", DECIMAL, f"{milli // 1000}.{milli % 1000:03}"), ("Format", "string", style)]
    amount = {"value": whole, "scale": scale}
    return [("i", "resource.int64Amount", amount), ("s", "string", text), ("Format", "string", style)]


def _leaf(kind: str, value: Any, display: _Display) -> Text:
    if isinstance(value, bool) or kind == "bool":
        return "true" if value else "false"
    if kind in ("int", "int32", "int64", "uint32"):
        return str(value or 0)
    return _text(value or "", display)


def _text(text: str, display: _Display, prefix: str = "") -> str:
    most = (1 << display.words) << 5
    if len(text.encode()) > most + len(ELLIPSIS):
        return f"{prefix}{_quoted(text[:most])}{ELLIPSIS}"
    return prefix + _quoted(text)


def _quoted(text: str) -> str:
    """A text in quotes, or in back quotes if that spares escapes."""
    quoted = go_quote(text)
    plain = "`" not in text and all(letter.isprintable() or letter == "\t" for letter in text)
    return f"`{text}`" if len(quoted) != len(text) + 2 and plain else quoted


def _by_method(kind: str, value: Any) -> str | None:
    """The text of a value by its method String; None if it has none."""
    if kind in _QUOTED_NAMES:
        return str(value or "")
    if value is None:
        return None
    if kind.removeprefix("*") in ("time.Time", "v1.Time", "v1.MicroTime"):
        return time_text(value)
    if kind == "*resource.Quantity":
        return quantity_text(value)
    if kind == "*intstr.IntOrString":
        return str(value)
    if kind == DECIMAL:
        return str(value)
    if kind == "*core.PersistentVolumeClaimTemplate":
        return _metadata_text(value.get("metadata") or {})
    return _selector_text(value) if kind == "*v1.LabelSelector" else None


def _metadata_text(metadata: Any) -> str:
    """Metadata of a template by the method String that is generated for them."""
    fields = ("name", "generateName", "namespace", "selfLink", "uid", "resourceVersion")
    named = ("Name", "GenerateName", "Namespace", "SelfLink", "UID", "ResourceVersion")
    texts = "".join(f"{go}:{metadata.get(key, '')}," for go, key in zip(named, fields, strict=True))
    maps = "".join(
        f"{key.title()}:map[string]string{{"
        + "".join(f"{name}: {value}," for name, value in sorted((metadata.get(key) or {}).items()))
        + "},"
        for key in ("labels", "annotations")
    )
    return (
        f"&ObjectMeta{{{texts}Generation:{metadata.get('generation', 0)},"
        "CreationTimestamp:0001-01-01 00:00:00 +0000 UTC,DeletionTimestamp:<nil>,"
        f"DeletionGracePeriodSeconds:nil,{maps}OwnerReferences:[]OwnerReference{{}},"
        f"Finalizers:[{' '.join(metadata.get('finalizers') or ())}],ManagedFields:[]ManagedFieldsEntry{{}},}}"
    )


def _selector_text(selector: Any) -> str:
    """A selector by the method String that is generated for it."""
    match = selector.get("matchLabels") or {}
    labels = "".join(f"{key}: {match[key]}," for key in sorted(match))
    rules = "".join(
        f"LabelSelectorRequirement{{Key:{each.get('key', '')},Operator:{each.get('operator', '')},"
        f"Values:[{' '.join(each.get('values') or ())}],}},"
        for each in selector.get("matchExpressions") or ()
    )
    return (
        f"&LabelSelector{{MatchLabels:map[string]string{{{labels}}},"
        f"MatchExpressions:[]LabelSelectorRequirement{{{rules}}},}}"
    )
