"""Rules in definitions: what does not compile, costs too much, or cannot be compared."""

from typing import Any

from sim.api.kinds.apiextensions.custom_resource_definition.schemas import schema_errors
from sim.api.types import Obj

HINT = (
    "(try simplifying the rule, or adding maxItems, maxProperties, and maxLength where arrays, maps, and "
    "strings are declared)"
)
TOTAL = "contributed to estimated rule cost total exceeding cost limit for entire OpenAPIv3 schema"


def ruled(schema: Obj, *rules: str) -> Obj:
    """A schema with rules."""
    return {**schema, "x-kubernetes-validations": [{"rule": rule} for rule in rules]}


def found(**properties: Obj) -> list[str]:
    """The errors of a schema of objects with these fields."""
    schema: Any = {"openAPIV3Schema": {"type": "object", "properties": properties}}
    at = "s.openAPIV3Schema"
    return [f"{e.field.removeprefix(at)}: {e.message}" for e in schema_errors(schema, False, "s")]


def test_rule_that_does_not_compile_is_shown_as_go_does() -> None:
    (error,) = found(a=ruled({"type": "string"}, 'self == "a'))
    assert error.startswith(
        ".properties[a].x-kubernetes-validations[0].rule: Invalid value: "
        'apiextensions.ValidationRule{Rule:"self == \\"a", Message:""}: compilation failed: ERROR: <input>:1:9: '
        "Syntax error: token recognition error at: "
    )


def test_cost_is_multiplied_by_the_number_of_values() -> None:
    items = ruled({"type": "string"}, "self.matches('aaaaaaaaa')")
    assert found(a={"type": "array", "items": items}) == [
        ".properties[a].items.x-kubernetes-validations[0].rule: Forbidden: estimated rule cost exceeds budget "
        f"by factor of more than 100x {HINT}",
        f".properties[a].items.x-kubernetes-validations[0].rule: Forbidden: {TOTAL}",
        ": Forbidden: x-kubernetes-validations estimated rule cost total for entire OpenAPIv3 schema exceeds "
        f"budget by factor of more than 100x {HINT}",
    ]
    assert found(a={"type": "array", "maxItems": 10, "items": items}) == []
    assert found(a={"type": "array", "maxItems": 12, "items": items}) == [
        ".properties[a].items.x-kubernetes-validations[0].rule: Forbidden: estimated rule cost exceeds budget "
        f"by factor of 1.132464x {HINT}"
    ]


def test_only_the_four_dearest_rules_are_named_for_the_total() -> None:
    fields = {
        f"a{i}": {
            "type": "array",
            "maxItems": 10,
            "items": ruled({"type": "string"}, "self.matches('aaaaaaaaa')"),
        }
        for i in range(12)
    }
    errors = found(**fields)
    assert [error.partition(": ")[0] for error in errors] == [
        *(
            f".properties[{name}].items.x-kubernetes-validations[0].rule"
            for name in ("a0", "a1", "a10", "a11")
        ),
        "",
    ]
    assert "1.132464x" in errors[-1]


def test_old_values_are_refused_where_they_are_lost() -> None:
    rule = ruled({"type": "string"}, "self == oldSelf")
    assert found(m={"type": "object", "additionalProperties": rule, "maxProperties": 2}) == []
    (error,) = found(a={"type": "array", "maxItems": 2, "items": rule})
    assert error == (
        '.properties[a].items.x-kubernetes-validations[0].rule: Invalid value: "self == oldSelf": oldSelf cannot '
        "be used on the uncorrelatable portion of the schema within s.openAPIV3Schema.properties[a]"
    )


def test_values_of_unknown_form_can_have_no_rules() -> None:
    assert found(p=ruled({"x-kubernetes-preserve-unknown-fields": True}, "self == 1")) == [
        ".properties[p].x-kubernetes-validations: Internal error: internal error: failed to construct type "
        "information for x-kubernetes-validations rules: unable to convert structural schema to CEL declarations"
    ]


def test_rules_are_not_compiled_in_a_wrong_schema() -> None:
    (error,) = found(a=ruled({"type": "string", "uniqueItems": True}, "self.x"))
    assert ".uniqueItems: Forbidden" in error


def test_default_must_satisfy_the_rules() -> None:
    assert found(a=ruled({"type": "integer", "default": 1}, "self > 5", "self == oldSelf")) == [
        '.properties[a].default: Invalid value: "integer": failed rule: self > 5'
    ]
