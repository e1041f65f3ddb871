"""LimitRanges: defaults and validation."""

from __future__ import annotations

import pytest

from tests.unit.sim.api.golden_api import Api
from tests.unit.sim.api.kinds.samples import created, made
from tests.unit.sim.api.kinds.writes import made as written


def test_maximum_of_a_container_is_its_default_limit_and_request() -> None:
    limits = written(
        "limitranges", {"limits": [{"type": "Container", "max": {"cpu": "2"}, "min": {"cpu": "1"}}]}
    )
    assert limits["spec"]["limits"][0]["default"] == {"cpu": "2"}
    assert limits["spec"]["limits"][0]["defaultRequest"] == {"cpu": "2"}


@pytest.mark.parametrize(
    ("kind", "problems"),
    [
        ("Pod", []),
        ("example.com/Widget", []),
        ("Widget", ["must be a standard limit type or fully qualified"]),
        ("", ["name part must be non-empty", "name part must consist of"]),
        ("Bad_/x", ["prefix part a lowercase RFC 1123 subdomain must consist of"]),
    ],
)
def test_type_of_a_limit_must_be_standard_or_qualified(kind: str, problems: list[str]) -> None:
    found = created("limitranges", made("limitranges", spec={"limits": [{"type": kind}]}))
    assert len(found) == len(problems)
    for error, problem in zip(found, problems, strict=True):
        assert error.startswith(f'spec.limits[0].type: Invalid value: "{kind}": {problem}')


def test_a_limit_range_without_a_name_gets_an_identifier_as_its_name() -> None:
    api = Api()
    made = api.ask("POST", "/api/v1/namespaces/golden-ns/limitranges", {"metadata": {"generateName": "a-"}})
    assert made.code == 201
    assert len(made.obj["metadata"]["name"]) == len(made.obj["metadata"]["uid"])
