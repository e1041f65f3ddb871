"""Rules inside of schemas (`x-kubernetes-validations`): whether they compile, and what they cost.

Turns each schema with rules into field errors, and adds up the estimated costs of all rules.

Holds: a rule may take as much as `COST_MAX` for all the values of its schema that an object can
have, and all rules of a schema of whole objects together `TOTAL_MAX`; both are upstream's limits.

Mirrors  apiextensions-apiserver v1.25
         pkg/apis/apiextensions/validation/{validation,cel_validation}.go
         (ValidateCustomResourceDefinitionOpenAPISchema, CELSchemaContext).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from sim.api.crd.structural import structural
from sim.api.go.printing import GoValue
from sim.api.kinds.apiextensions.custom_resource_definition.structure import EMBEDDED
from sim.api.types import Json, Obj
from sim.api.validation.errors import INTERNAL, Errors, FieldError, forbidden, invalid

if TYPE_CHECKING:
    from sim.api.crd.cel.rules import Compiled

MOST = (1 << 64) - 1  # costs stay at the greatest number that upstream's type holds
COST_MAX, TOTAL_MAX = 10_000_000, 100_000_000
NAMED = 4  # of the most expensive rules, if all together take too much
_HINT = (
    "(try simplifying the rule, or adding maxItems, maxProperties, and maxLength where arrays, maps, and "
    "strings are declared)"
)


class Scope(NamedTuple):
    """How often the values of a schema can occur in one object; None if the schemas set no bound."""

    times: int | None


WHOLE = Scope(1)


def inner_scope(scope: Scope, schema: Obj) -> Scope:
    """The scope of the schemas in one."""
    times: int | None = 1
    if schema.get("type") == "array":
        times = _bound(schema.get("maxItems"))
    elif schema.get("type") == "object" and schema.get("additionalProperties") is not None:
        times = _bound(schema.get("maxProperties"))
    return Scope(None if scope.times is None or times is None else _product(scope.times, times))


def _bound(given: Json) -> int | None:
    return max(0, int(given)) if isinstance(given, int | float) else None


def _product(cost: int, times: int) -> int:
    return min(cost * times, MOST)


class Rules:
    """The rules of one schema of whole objects. errors: of the rules looked at so far."""

    def __init__(self) -> None:
        self.errors: Errors = []
        self._total = 0
        self._dear: list[tuple[int, str]] = []

    def check(self, schema: Obj, at: str, scope: Scope, lost: str, root: bool) -> None:
        """Check the rules of one schema.

        lost: the path of a schema above that loses the old values of its parts; "" if none does
        """
        # A late import, because few definitions have rules.
        from sim.api.crd.cel.rules import cardinality, compiled

        kind, found = compiled(structural(schema), root or bool(schema.get(EMBEDDED)))
        if kind is None:
            why = "failed to construct type information for x-kubernetes-validations rules"
            text = f"internal error: {why}: unable to convert structural schema to CEL declarations"
            self.errors.append(FieldError(f"{at}.x-kubernetes-validations", INTERNAL, text))
            return
        times = cardinality(kind) if scope.times is None else scope.times
        for i, rule in enumerate(found):
            self._one(rule, _product(rule.cost, times), f"{at}.x-kubernetes-validations[{i}].rule", lost)

    def _one(self, rule: Compiled, cost: int, field: str, lost: str) -> None:
        if cost > COST_MAX:
            self.errors.append(forbidden(field, _too_costly("estimated rule cost", cost, COST_MAX)))
        self._total = min(self._total + cost, MOST)
        if cost >= TOTAL_MAX // 100:
            self._dear.append((cost, field))
        if rule.error:
            given = {"rule": rule.text, "message": rule.message}
            self.errors.append(invalid(field, GoValue("apiextensions.ValidationRule", given), rule.error))
        if rule.transition and lost:
            text = f"oldSelf cannot be used on the uncorrelatable portion of the schema within {lost}"
            self.errors.append(invalid(field, rule.text, text))

    def total_errors(self, at: str) -> Errors:
        """Errors of all rules together."""
        if self._total <= TOTAL_MAX:
            return []
        text = "contributed to estimated rule cost total exceeding cost limit for entire OpenAPIv3 schema"
        dearest = sorted(self._dear, key=lambda one: -one[0])[:NAMED]
        what = "x-kubernetes-validations estimated rule cost total for entire OpenAPIv3 schema"
        return [
            *(forbidden(field, text) for _, field in dearest),
            forbidden(at, _too_costly(what, self._total, TOTAL_MAX)),
        ]


def _too_costly(what: str, cost: int, limit: int) -> str:
    times = cost / limit
    factor = "more than 100x" if times > 100 else f"{times:.6f}x" if times < 1.5 else f"{times:.1f}x"
    return f"{what} exceeds budget by factor of {factor} {_HINT}"
