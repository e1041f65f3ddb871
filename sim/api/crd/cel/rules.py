"""The rules of schemas: compiled when a definition is written, evaluated on its objects.

A schema's rules become `Compiled`; a whole schema becomes a `Validator`, which turns an object (and
the one before it) into field errors.

Holds: a rule that mentions `oldSelf` is evaluated on updates only, and where the old value can be
found: in fields, in maps, and in lists of type map; all rules of an object share one budget.

Mirrors  apiextensions-apiserver v1.25 pkg/apiserver/schema/cel/{compilation,validation,maplist}.go.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from sim.api.crd.cel import checker, syntax
from sim.api.crd.cel.cost import estimate
from sim.api.crd.cel.declared import REQUEST_BYTES_MAX, Declared, declared, escaped, with_head
from sim.api.crd.cel.evaluate import TOO_COSTLY, BadProgram, Program
from sim.api.crd.cel.types import BOOL, Type
from sim.api.crd.cel.values import NO_OVERLOAD, value_or_error
from sim.api.crd.definition_form import RULES
from sim.api.crd.structural import Structural
from sim.api.memo import IdentityMemo
from sim.api.types import Json, Obj
from sim.api.validation.errors import Errors, invalid
from sim.pauses import paced, spent

VALUE_US, RULE_US = 6, 300  # of processor time, for a value with rules, and to compile a rule
BUDGET = 10_000_000  # of all rules of one object: RuntimeCELCostBudget
_SELF, _OLD = "self", "oldSelf"
_OUT = "validation failed due to running out of cost budget, no further validation rules will be run"
_ABSENT: Any = object()


class Compiled(NamedTuple):
    """A rule. program: None if it is empty or wrong.

    error: what is wrong with it; transition: True if it compares with the old value
    cost: the most that one evaluation takes by estimate
    """

    text: str
    message: str
    program: Program | None = None
    error: str = ""
    transition: bool = False
    cost: int = 0

    @property
    def shown(self) -> str:
        """The rule in messages."""
        return (self.message or self.text).strip()


def rules_in(raw: Obj) -> list[tuple[str, str]]:
    """The texts and messages of the rules of a schema, without those below."""
    given = raw.get(RULES)
    return [
        (str(one.get("rule") or ""), str(one.get("message") or ""))
        for one in (given if isinstance(given, list) else ())
        if isinstance(one, dict)
    ]


def compiled(schema: Structural, root: bool) -> tuple[Declared | None, list[Compiled]]:
    """The rules of a schema, without those below, and the type of its values.

    root: True for a whole object
    """
    kind = declared(schema, root)
    if kind is None:
        return None, []
    fields = {one.type.name: one.fields or {} for one in kind.objects()}
    variables = dict.fromkeys((_SELF, _OLD, "rule"), kind.type)

    def field(owner: str, name: str) -> Type | None:
        found = fields.get(owner, {}).get(name)
        return None if found is None else found.type

    rules = paced(rules_in(schema.raw), RULE_US)
    return kind, [_one(*rule, kind, variables, field) for rule in rules]


def _one(
    text: str, message: str, kind: Declared, variables: dict[str, Type], fields: checker.Fields
) -> Compiled:
    made = Compiled(text, message)
    if not text.strip():
        return made
    try:
        found = checker.check(syntax.parse(text), variables, fields)
    except (syntax.BadSyntax, checker.Mistyped) as error:
        return made._replace(error=f"compilation failed: {error}")
    except syntax.NoParser:
        return made._replace(error=syntax.NO_PARSER)
    if found.result != BOOL:
        return made._replace(error="cel expression must evaluate to a bool")
    made = made._replace(transition=_OLD in found.names)
    try:
        program = Program(found)
    except BadProgram as error:
        return made._replace(error=f"program instantiation failed: {error}")
    return made._replace(program=program, cost=estimate(found, kind))


def cardinality(kind: Declared) -> int:
    """How often values of a type can occur in one request, if no schema bounds them."""
    return REQUEST_BYTES_MAX // (kind.least_json + 1)


# --- objects --------------------------------------------------------------------------------------


class Validator:
    """The rules of a schema and of those below; None stands for a part without rules.

    count: of all its rules
    """

    def __init__(self, schema: Structural, root: bool) -> None:
        self.schema = with_head(schema) if root else schema
        _, self.rules = compiled(schema, root) if rules_in(schema.raw) else (None, [])
        self.fields = {
            name: below
            for name, one in schema.properties.items()
            if _is_reachable(name, one) and (below := _below(one)) is not None
        }
        self.rest = None if schema.rest is None else _below(schema.rest)
        self.items = None if schema.items is None else _below(schema.items)
        parts = [each for each in (*self.fields.values(), self.rest, self.items) if each is not None]
        self.count: int = len(self.rules) + sum(each.count for each in parts)

    @property
    def is_empty(self) -> bool:
        """Return True if there are no rules."""
        return not self.count


def _is_reachable(name: str, schema: Structural) -> bool:
    return not escaped(name) or declared(schema, schema.embedded) is not None


def _below(schema: Structural) -> Validator | None:
    made = Validator(schema, schema.embedded)
    return None if made.is_empty else made


_validators: IdentityMemo[Validator] = IdentityMemo()


def validator_of(schema: Structural) -> Validator | None:
    """The rules for whole objects of a schema; None if it has none.

    Work that rests does so whether the rules were compiled before or not.
    """
    made = _validators.get(schema)
    if made is None:
        made = _validators.put(Validator(schema, True), schema)
    else:
        for _ in range(made.count):
            spent(RULE_US)
    return None if made.is_empty else made


def rule_errors(schema: Structural, obj: Obj, old: Obj | None) -> Errors:
    """The errors of the rules of a schema in an object."""
    validator = validator_of(schema)
    if validator is None:
        return []
    walk = _Walk(BUDGET)
    walk.look(validator, "", obj, _ABSENT if old is None else old)
    return walk.errors


def default_errors(schema: Structural, root: bool, at: str, budget: int) -> tuple[Errors, int]:
    """The errors of the rules of a schema in its own default, and what is left of the budget: a
    negative number if no further rule may be run.
    """
    validator = Validator(schema, root)
    if validator.is_empty:
        return [], budget
    walk = _Walk(budget)
    go_on = walk.look(validator, at, schema.default, schema.default)
    return walk.errors, walk.left if go_on else -1


class _Walk:
    def __init__(self, budget: int) -> None:
        self.errors: Errors = []
        self.left = budget

    def look(self, validator: Validator, at: str, value: Json, old: Any) -> bool:
        """Check a value and those below it; False if no further rule may be run.

        old: the value before, `_ABSENT` if there is none or it cannot be found
        """
        if value is None:
            return True
        old = _ABSENT if old is None else old
        if validator.rules and not self._check(validator, at, value, old):
            return False
        if isinstance(value, list) and validator.items is not None:
            return self._list(validator, validator.items, at, value, old)
        if isinstance(value, dict):
            return self._map(validator, at, value, old)
        return True

    def _list(self, validator: Validator, below: Validator, at: str, value: list[Json], old: Any) -> bool:
        known = _by_keys(validator.schema, old)
        for i, item in enumerate(value):
            before = known.get(_key(validator.schema, item), _ABSENT)
            if not self.look(below, f"{at}[{i}]", item, before):
                return False
        return True

    def _map(self, validator: Validator, at: str, value: Obj, old: Any) -> bool:
        known = old if isinstance(old, dict) else {}
        for key, given in value.items():
            if validator.rest is not None and key not in validator.schema.properties:
                if not self.look(validator.rest, f"{at}[{key}]", given, known.get(key, _ABSENT)):
                    return False
            elif (below := validator.fields.get(key)) is not None:
                path = f"{at}.{key}" if at else key
                if not self.look(below, path, given, known.get(key, _ABSENT)):
                    return False
        return True

    def _fail(self, validator: Validator, at: str, text: str) -> None:
        kind = str(validator.schema.raw.get("type") or "")
        self.errors.append(invalid(at or "<nil>", kind, text))

    def _check(self, validator: Validator, at: str, value: Json, old: Any) -> bool:
        """Run the rules of one value; False if no further rule may be run."""
        if self.left <= 0:
            self._fail(validator, at, _OUT)
            return False
        spent(VALUE_US)
        values = [value_or_error(value, validator.schema)]
        if old is not _ABSENT:
            values.append(value_or_error(old, validator.schema))
        for rule in validator.rules:
            if rule.error:
                self._fail(validator, at, f"rule compile error: {rule.error}")
                continue
            if rule.program is None or (rule.transition and old is _ABSENT):
                continue
            outcome = rule.program.run(*values)
            if outcome.cost > self.left:
                self._fail(validator, at, _OUT)
                return False
            self.left -= outcome.cost
            if outcome.error == TOO_COSTLY:
                text = "no further validation rules will be run due to call cost exceeds limit for rule"
                self._fail(validator, at, f"'{TOO_COSTLY}': {text}: {rule.shown}")
                return False
            if outcome.error.startswith(NO_OVERLOAD):
                text = (
                    "call arguments did not match a supported operator, function or macro signature for rule"
                )
                self._fail(validator, at, f"'{outcome.error}': {text}: {rule.shown}")
            elif outcome.error:
                self._fail(validator, at, f"{outcome.error} evaluating rule: {rule.shown}")
            elif outcome.value is not True:
                self._fail(validator, at, rule.message or f"failed rule: {rule.shown}")
        return True


def _by_keys(schema: Structural, old: Any) -> dict[Any, Json]:
    """The items of the list before by their keys, the first of equal ones."""
    found: dict[Any, Json] = {}
    if schema.list_type == "map" and isinstance(old, list):
        for item in old:
            key = _key(schema, item)
            if key is not None:
                found.setdefault(key, item)
    return found


def _key(schema: Structural, item: Json) -> Any:
    """The values of the keys of an item; None if it has not all of them."""
    if not schema.map_keys or not isinstance(item, dict):
        return None
    values = [item.get(key) for key in schema.map_keys]
    if not all(isinstance(value, str | int | float) for value in values):
        return None
    return tuple((type(value).__name__, value) for value in values)
