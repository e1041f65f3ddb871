"""Label and field selectors: a text or an object becomes a value that matches objects.

`app=x,tier in (a,b)` or a LabelSelector object becomes a `LabelSelector`, and `spec.nodeName=n1`
becomes a `FieldSelector` of one resource.

Holds: an empty selector matches everything, an absent one (None) nothing; equal texts give the same
object.

Mirrors  apimachinery v1.25 pkg/labels/selector.go, pkg/fields/selector.go,
         pkg/apis/meta/v1/helpers.go; kubernetes pkg/apis/*/v1/conversion.go (field labels),
         pkg/registry/core/*/strategy.go (selectable fields).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import field
from typing import Any

from sim.api.schema.json_text import go_quote
from sim.api.schema.resource import Resource
from sim.api.types import Obj
from sim.dataclass import dataclass
from sim.patterns import pattern
from sim.remembered import cached
from sim.units import parse_whole

IN, NOT_IN, EXISTS, DOES_NOT_EXIST = "In", "NotIn", "Exists", "DoesNotExist"
GREATER, LESS = "Gt", "Lt"
FEW = 8  # requirements, or values of one, that are looked at one after the other


class SelectorError(ValueError):
    """A selector that upstream refuses, with upstream's message; the API answers 400."""


def meets(operator: str, have: str | None, values: Sequence[str]) -> bool:
    """True if the value of a label or field meets a requirement.

    have: the value, None if absent

    Gt and Lt match nothing unless both texts are decimal integers of 64 bits.
    """
    if operator == IN:
        return have in values
    if operator == NOT_IN:
        return have not in values
    if operator == EXISTS:
        return have is not None
    if operator == DOES_NOT_EXIST:
        return have is None
    left = None if have is None else parse_whole(have)
    right = parse_whole(values[0]) if values else None
    if left is None or right is None:
        return False
    return left > right if operator == GREATER else left < right


@dataclass(frozen=True, slots=True)
class Requirement:
    """One condition on one label. `values` are sorted, as upstream keeps them."""

    key: str
    operator: str
    values: tuple[str, ...] = ()

    def matches(self, labels: Mapping[str, str]) -> bool:
        """True if the labels meet the requirement."""
        return meets(self.operator, labels.get(self.key), self.values)


class _Bounds:
    """All requirements on one label together: one look-up each, however many there are."""

    __slots__ = ("_above", "_allowed", "_barred", "_below")

    def __init__(self) -> None:
        self._allowed: frozenset[str | None] | None = None  # None: any
        self._barred: set[str | None] = set()
        self._above: int | None = None
        self._below: int | None = None

    def add(self, operator: str, values: Sequence[str]) -> None:
        """Take in one more requirement."""
        if operator in (IN, DOES_NOT_EXIST):
            some = frozenset[str | None](values if operator == IN else (None,))
            self._allowed = some if self._allowed is None else self._allowed & some
        elif operator == NOT_IN:
            self._barred.update(values)
        elif operator == EXISTS:
            self._barred.add(None)
        elif (bound := parse_whole(values[0]) if values else None) is None:
            self._allowed = frozenset()
        elif operator == GREATER:
            self._above = bound if self._above is None else max(bound, self._above)
        else:
            self._below = bound if self._below is None else min(bound, self._below)

    def allow(self, have: str | None) -> bool:
        """True if a value meets all of them; None stands for an absent label."""
        if have in self._barred or (self._allowed is not None and have not in self._allowed):
            return False
        if self._above is None and self._below is None:
            return True
        number = None if have is None else parse_whole(have)
        if number is None:
            return False
        return (self._above is None or number > self._above) and (self._below is None or number < self._below)


class _ByKey:
    """Many requirements by their labels: as much work as an object has labels."""

    __slots__ = ("_bounds", "_needed")

    def __init__(self, requirements: tuple[Requirement, ...]) -> None:
        self._bounds: dict[str, _Bounds] = {}
        for each in requirements:
            self._bounds.setdefault(each.key, _Bounds()).add(each.operator, each.values)
        self._needed = tuple(key for key, bounds in self._bounds.items() if not bounds.allow(None))

    def matches(self, given: Mapping[str, str]) -> bool:
        """True if the labels meet all requirements."""
        for key in self._needed:  # a loop as long as the labels
            if key not in given:
                return False
        for key in given if len(given) < len(self._bounds) else self._bounds:
            bounds = self._bounds.get(key)
            if bounds is not None and not bounds.allow(given.get(key)):
                return False
        return True


@dataclass(frozen=True, slots=True)
class LabelSelector:
    """A conjunction of requirements.

    nothing: True if it matches no object
    by_key: the requirements again, if there are many
    """

    requirements: tuple[Requirement, ...] = ()
    nothing: bool = False
    by_key: _ByKey | None = field(default=None, compare=False, repr=False)

    def matches(self, labels: Mapping[str, str] | None) -> bool:
        """True if the labels meet all requirements."""
        if self.nothing:
            return False
        given: Mapping[str, str] = labels or {}
        if self.by_key is not None:
            return self.by_key.matches(given)
        for requirement in self.requirements:  # noqa: SIM110  (a generator takes twice as long)
            if not requirement.matches(given):
                return False
        return True

    @property
    def empty(self) -> bool:
        """True if it matches everything."""
        return not self.requirements and not self.nothing


NOTHING = LabelSelector(nothing=True)


def _selector(requirements: tuple[Requirement, ...]) -> LabelSelector:
    many = len(requirements) > FEW or any(len(each.values) > FEW for each in requirements)
    return LabelSelector(requirements, by_key=_ByKey(requirements) if many else None)


# --- label selectors from objects -----------------------------------------------------------------


def from_selector(obj: Mapping[str, Any] | None) -> LabelSelector:
    """A LabelSelector object: None matches nothing, {} everything."""
    if obj is None:
        return NOTHING
    labels = tuple(sorted((obj.get("matchLabels") or {}).items()))
    expressions = obj.get("matchExpressions")
    if not expressions:
        return _equalities(labels)
    return _selector(
        _equalities(labels).requirements
        + tuple(
            Requirement(e["key"], e["operator"], tuple(sorted(e.get("values") or ()))) for e in expressions
        )
    )


@cached(4096)
def _equalities(labels: tuple[tuple[str, str], ...]) -> LabelSelector:
    return _selector(tuple(Requirement(key, IN, (value,)) for key, value in labels))


def format_labels(labels: Mapping[str, str] | None) -> str:
    """labels.FormatLabels: "a=b,c=d"; "<none>" without labels."""
    return ",".join(f"{key}={value}" for key, value in sorted((labels or {}).items())) or "<none>"


def format_selector(obj: Mapping[str, Any] | None) -> str:
    """metav1.FormatLabelSelector: "a=b,c in (d,e),!f"; "<none>" for an empty selector."""
    if obj is None:
        return "<none>"
    parts = [(key, f"{key}={value}") for key, value in (obj.get("matchLabels") or {}).items()]
    expressions = from_selector({**obj, "matchLabels": {}}).requirements
    parts += [(requirement.key, _format(requirement)) for requirement in expressions]
    return ",".join(text for _, text in sorted(parts, key=lambda part: part[0])) or "<none>"


def _format(requirement: Requirement) -> str:
    key, values = requirement.key, requirement.values
    match requirement.operator:
        case "Exists":
            return key
        case "DoesNotExist":
            return f"!{key}"
        case "NotIn":
            return f"{key} notin ({','.join(sorted(values))})"
        case "In":
            return f"{key} in ({','.join(sorted(values))})"
        case operator:
            return f"{key}{'>' if operator == GREATER else '<'}{values[0]}"


# --- label selectors from text --------------------------------------------------------------------

_TOKEN = pattern(r"[ \t\r\n]*(==|!=|[=!(),<>]|[^=!(),<> \t\r\n]+|$)")
_SPECIAL = frozenset(("==", "!=", "=", "!", "(", ")", ",", "<", ">", ""))
_OPERATORS = {"in": IN, "=": IN, "==": IN, "notin": NOT_IN, "!=": NOT_IN, ">": GREATER, "<": LESS}

_NAME = pattern(r"([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]")
_SUBDOMAIN = pattern(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*")
_NAME_RULE = (
    "must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric "
    "character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is "
    "'([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')"
)
_PREFIX_RULE = (
    "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start "
    "and end with an alphanumeric character (e.g. 'example.com', regex used for validation is "
    r"'[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')"
)
_VALUE_RULE = (
    "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must start "
    "and end with an alphanumeric character (e.g. 'MyValue',  or 'my_value',  or '12345', regex used for validation "
    "is '(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')"
)


@cached(1024)
def parse_labels(text: str) -> LabelSelector:
    """A selector as in a URL; SelectorError in upstream's words."""
    parser = _Parser(text)
    requirements = []
    while (token := parser.peek()) != "":
        if token in _SPECIAL and token != "!":
            raise SelectorError(f"found '{token}', expected: !, identifier, or 'end of string'")
        try:
            requirements.append(parser.requirement())
        except SelectorError as err:
            raise SelectorError(f"unable to parse requirement: {err}") from None
        token = parser.next()
        if token == "":
            break
        if token != ",":
            raise SelectorError(f"found '{token}', expected: ',' or 'end of string'")
        after = parser.peek()
        if after in _SPECIAL and after != "!":
            raise SelectorError(f"found '{after}', expected: identifier after ','")
    return _selector(tuple(sorted(requirements, key=lambda r: r.key)))


class _Parser:
    """Upstream's recursive descent over tokens; "" is the end of the text."""

    def __init__(self, text: str) -> None:
        self.tokens = [match[1] for match in _TOKEN.finditer(text)]
        self.at = 0

    def peek(self) -> str:
        return self.tokens[self.at] if self.at < len(self.tokens) else ""

    def next(self) -> str:
        token = self.peek()
        self.at += 1
        return token

    def requirement(self) -> Requirement:
        token = self.next()
        absent = token == "!"
        key = self.next() if absent else token
        if key in _SPECIAL:
            raise SelectorError(f"found '{key}', expected: identifier")
        _check_key(key)
        if absent:
            return Requirement(key, DOES_NOT_EXIST)
        if self.peek() in ("", ","):
            return Requirement(key, EXISTS)
        word = self.next()
        if word not in _OPERATORS:
            raise SelectorError(f"found '{word}', expected: in, notin, =, ==, !=, gt, lt")
        values = self.listed() if word in ("in", "notin") else [self.exact()]
        return _checked(key, _OPERATORS[word], tuple(sorted(set(values))))

    def exact(self) -> str:
        if self.peek() in ("", ","):
            return ""
        token = self.next()
        if token in _SPECIAL:
            raise SelectorError(f"found '{token}', expected: identifier")
        return token

    def listed(self) -> list[str]:
        token = self.next()
        if token != "(":
            raise SelectorError(f"found '{token}' expected: '('")
        if self.peek() == ")":
            self.next()
            return [""]
        if self.peek() in _SPECIAL and self.peek() != ",":
            raise SelectorError(f"found '{self.peek()}', expected: ',', ')' or identifier")
        values: list[str] = []
        wanted = True  # a value may follow; a missing one is empty
        while True:
            token = self.next()
            if token not in _SPECIAL and wanted:
                values.append(token)
                wanted = False
                if self.peek() not in (",", ")"):
                    raise SelectorError(f"found '{self.peek()}', expected: ',' or ')'")
            elif token in (",", ")"):
                if wanted:
                    values.append("")
                if token == ")":
                    return values
                wanted = True
            else:
                raise SelectorError(f"found '{token}', expected: ',', or identifier")


def _check_key(key: str) -> None:
    problems = qualified_name_problems(key)
    if problems:
        raise SelectorError(f"<nil>: Invalid value: {go_quote(key)}: {'; '.join(problems)}")


def qualified_name_problems(key: str) -> list[str]:
    """The errors in a label key (validation.IsQualifiedName)."""
    parts = key.split("/")
    if len(parts) > 2:
        return [
            f"a qualified name {_NAME_RULE} with an optional DNS subdomain prefix and '/' (e.g. 'example.com/MyName')"
        ]
    problems = []
    if len(parts) == 2:
        if not parts[0]:
            problems.append("prefix part must be non-empty")
        else:
            if len(parts[0]) > 253:
                problems.append("prefix part must be no more than 253 characters")
            if not _SUBDOMAIN.fullmatch(parts[0]):
                problems.append(f"prefix part {_PREFIX_RULE}")
    name = parts[-1]
    if not name:
        problems.append("name part must be non-empty")
    elif len(name) > 63:
        problems.append("name part must be no more than 63 characters")
    if not _NAME.fullmatch(name):
        problems.append(f"name part {_NAME_RULE}")
    return problems


def _checked(key: str, operator: str, values: tuple[str, ...]) -> Requirement:
    problems = []
    if operator in (GREATER, LESS) and parse_whole(values[0]) is None:
        rule = "for 'Gt', 'Lt' operators, the value must be an integer"
        problems.append(f"values[0]: Invalid value: {go_quote(values[0])}: {rule}")
    for i, value in enumerate(values):
        wrong = []
        if len(value) > 63:
            wrong.append("must be no more than 63 characters")
        if value and not _NAME.fullmatch(value):
            wrong.append(_VALUE_RULE)
        if wrong:
            problems.append(f"values[{i}][{key}]: Invalid value: {go_quote(value)}: {'; '.join(wrong)}")
    if problems:
        raise SelectorError(problems[0] if len(problems) == 1 else f"[{', '.join(problems)}]")
    return Requirement(key, operator, values)


# --- field selectors ------------------------------------------------------------------------------

Getter = Callable[[Obj], str]


def _path(text: str) -> Getter:
    steps = text.split(".")

    def get(obj: Obj) -> str:
        value: Any = obj
        for step in steps:
            value = value.get(step)
            if value is None:
                return ""
        return str(value)

    return get


def _unschedulable(obj: Obj) -> str:
    return "true" if (obj.get("spec") or {}).get("unschedulable") else "false"


def _event_source(obj: Obj) -> str:
    return str((obj.get("source") or {}).get("component") or obj.get("reportingComponent") or "")


def _none(_: Obj) -> str:
    return ""


def _count(text: str) -> Getter:
    """The getter of a number, which is 0 where it is absent."""
    get = _path(text)
    return lambda obj: get(obj) or "0"


def _paths(*texts: str) -> dict[str, Getter]:
    return {text: _path(text) for text in texts}


_ALWAYS = _paths("metadata.name", "metadata.namespace")
_INVOLVED = ("kind", "namespace", "name", "uid", "apiVersion", "resourceVersion", "fieldPath")
# (short group, kind) with selectable fields of its own.  Each kind of Event reads its own form.
_FIELDS: dict[tuple[str, str], dict[str, Getter]] = {
    ("", "Pod"): {
        **_ALWAYS,
        **_paths("spec.nodeName", "spec.restartPolicy", "spec.schedulerName", "spec.serviceAccountName"),
        **_paths("status.phase", "status.podIP", "status.nominatedNodeName"),
        "spec.host": _path("spec.nodeName"),
        "status.podIPs": _none,  # Quirk: accepted and never set
    },
    ("", "Node"): {**_paths("metadata.name"), "spec.unschedulable": _unschedulable},
    ("certificates", "CertificateSigningRequest"): _paths("metadata.name", "spec.signerName"),
    ("batch", "Job"): {**_ALWAYS, "status.successful": _count("status.succeeded")},
    ("", "Namespace"): _paths("metadata.name", "status.phase"),
    ("", "Secret"): {**_ALWAYS, **_paths("type")},
    ("", "ReplicationController"): {**_ALWAYS, "status.replicas": _count("status.replicas")},
    ("", "Event"): {
        **_ALWAYS,
        **_paths(*(f"involvedObject.{field}" for field in _INVOLVED), "reason", "reportingComponent", "type"),
        "source": _event_source,
    },
    ("events", "Event"): {
        **_ALWAYS,
        **_paths(*(f"regarding.{field}" for field in _INVOLVED), "reason", "reportingController", "type"),
    },
}


@dataclass(frozen=True, slots=True)
class FieldRequirement:
    """One condition on one field: its value equals `value`, or differs from it."""

    field: str
    value: str
    equal: bool
    get: Getter


@dataclass(frozen=True, slots=True)
class FieldSelector:
    """A conjunction of field requirements.

    fields: the getter of each field that it names, and what its value has to be and must not be
    """

    requirements: tuple[FieldRequirement, ...] = ()
    fields: tuple[tuple[Getter, _Bounds], ...] = field(default=(), compare=False, repr=False)

    def matches(self, obj: Obj) -> bool:
        """True if the object meets all requirements."""
        for get, bounds in self.fields:  # noqa: SIM110
            if not bounds.allow(get(obj)):
                return False
        return True

    def exact(self, field: str) -> str | None:
        """The value that a field must equal, None if any: it allows the use of an index or a key."""
        return next((r.value for r in self.requirements if r.field == field and r.equal), None)

    @property
    def empty(self) -> bool:
        """True if it matches everything."""
        return not self.requirements


_PLAIN_TERM = pattern(r"([A-Za-z.]+)=([A-Za-z0-9.-]*)")


@cached(1024)
def parse_fields(resource: Resource, text: str) -> FieldSelector:
    """A field selector of a resource; raises SelectorError with upstream's message."""
    own = _FIELDS.get((resource.short_group, resource.kind))
    requirements, bounds = [], dict[str, tuple[Getter, _Bounds]]()
    for name, equal, value in _terms(text):
        get = (own or _ALWAYS).get(name)
        if get is None:
            if resource.rule == "jobs":
                raise SelectorError(f"field label {go_quote(name)} not supported for Job")
            if own is not None or resource.custom:
                raise SelectorError(f"field label not supported: {name}")
            raise SelectorError(
                f'"{name}" is not a known field selector: only "metadata.name", "metadata.namespace"'
            )
        requirements.append(FieldRequirement(name, value, equal, get))
        bounds.setdefault(name, (get, _Bounds()))[1].add(IN if equal else NOT_IN, (value,))
    return FieldSelector(tuple(requirements), tuple(bounds.values()))


def check_fields(text: str) -> None:
    """Raises SelectorError if the text is not a field selector of any resource."""
    if text:
        _terms(text)


def name_in_selector(text: str) -> str:
    """The only metadata.name that a field selector allows; "" if it allows any or is malformed."""
    try:
        name = next((v for field, equal, v in _terms(text) if equal and field == "metadata.name"), "")
    except SelectorError:
        return ""
    return "" if name in (".", "..") or "/" in name or "%" in name else name


def _terms(text: str) -> Iterable[tuple[str, bool, str]]:
    plain = _PLAIN_TERM.fullmatch(text)
    if plain is not None:  # as in the requests of each node agent
        return [(plain[1], True, plain[2])]
    terms = re.findall(r"(?:\\.|[^,\\]|\\$)+", text, re.DOTALL)
    parsed = []
    for term in sorted(terms):  # upstream sorts, so its error names the first bad term
        match = re.match(r"((?:[^!=]|!(?!=))*)(!=|==|=)(.*)", term, re.DOTALL)
        if match is None:
            raise SelectorError(f"invalid selector: '{text}'; can't understand '{term}'")
        value = _unescape(match[3])
        if match[1] or value:  # Quirk: a term of nothing but an operator counts for nothing
            parsed.append((match[1], match[2] != "!=", value))
    return parsed


def _unescape(value: str) -> str:
    out = []
    escaped = False
    for c in value:
        if escaped:
            if c not in "\\,=":
                raise SelectorError(f"invalid field selector: invalid escape sequence: \\{c}")
            out.append(c)
            escaped = False
        elif c == "\\":
            escaped = True
        elif c in ",=":
            raise SelectorError(f"invalid field selector: unescaped character in value: {ord(c)}")
        else:
            out.append(c)
    if escaped:
        raise SelectorError("invalid field selector: invalid escape sequence: \\")
    return "".join(out)
