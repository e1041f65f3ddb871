"""The page for authors of scenarios names every key of the schema, and its examples compile."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from sim.app.options import check_options
from sim.app.possible import expectations_of
from sim.check.invariants import INVARIANTS
from sim.options.apiserver.server import ApiServerFlags
from sim.options.base import options_of
from sim.options.controllers.manager import ControllerManagerOptions
from sim.options.features.gates import SPECIAL
from sim.options.node.agent import NodeAgentOptions
from sim.options.scheduler import SchedulerOptions
from sim.scenario.compile import load
from sim.scenario.schema.sections import Scenario

PAGE = Path(__file__).parents[4] / "scenarios" / "README.md"
TEXT = PAGE.read_text()
BLOCKS = re.findall(r"```yaml ?(\w*)\n(.*?)```", TEXT, re.DOTALL)
HEAD = next(body for kind, body in BLOCKS if not kind)
TIMELINES = [body for kind, body in BLOCKS if kind == "timeline"]
EXPECT = "".join(body for kind, body in BLOCKS if kind == "expect")
HUNT = "".join(body for kind, body in BLOCKS if kind == "hunt")


def structs(kind: Any) -> Iterator[type[msgspec.Struct]]:
    if isinstance(kind, type) and issubclass(kind, msgspec.Struct):
        yield kind
        for field in msgspec.structs.fields(kind):
            yield from structs(field.type)
    for inner in getattr(kind, "__args__", ()):
        yield from structs(inner)


def choices(kind: Any) -> Iterator[str]:
    """The literals of a type."""
    for inner in getattr(kind, "__args__", ()):
        if isinstance(inner, str):
            yield inner
        else:
            yield from choices(inner)


KEYS = sorted({key for struct in structs(Scenario) for key in struct.__struct_encode_fields__})


@pytest.mark.parametrize("key", KEYS)
def test_every_key_of_the_schema_is_on_the_page(key: str) -> None:
    assert re.search(rf"(?<![\w-]){key}(?![\w-])", TEXT), f"{key} is not on the page"


@pytest.mark.parametrize("value", ["Fail.how", "Storage.how", "Cloud.how", "Pressure.resource"])
def test_every_choice_of_a_parameter_is_on_the_page(value: str) -> None:
    name, _, key = value.partition(".")
    struct = next(s for s in structs(Scenario) if s.__name__ == name)
    (field,) = [f for f in msgspec.structs.fields(struct) if f.name == key]
    found = [*choices(field.type)]
    assert found and [choice for choice in found if choice not in TEXT] == []


def test_page_names_exactly_the_feature_gates() -> None:
    (gates,) = re.search(r"A feature gate (.*?)\n\nAn ", TEXT, re.DOTALL).groups()  # type: ignore[union-attr]
    daemons = (ApiServerFlags, ControllerManagerOptions, NodeAgentOptions, SchedulerOptions)
    effects = [
        one.effect for daemon in daemons for one in options_of(daemon).values() if one.name == "feature-gates"
    ]
    built = {gate for effect in effects for gate in effect.partition(": ")[2].split(", ") if gate}
    assert built and set(re.findall(r"\b[A-Z]\w+(?:[a-z][A-Z]|[A-Z][a-z])\w+", gates)) == built | {*SPECIAL}


def test_examples_of_the_page_compile(tmp_path: Path) -> None:
    steps = "".join(TIMELINES).replace("\n", "\n    ")
    expect = EXPECT.replace("\n", "\n    ")
    hunt = HUNT.replace("\n", "\n    ")
    (tmp_path / "deaths.csv").write_text("node,unknown_after_s\nn000,34.06\n")
    file = tmp_path / "s.yaml"
    file.write_text(f"{HEAD}  timeline:\n    {steps}\n  expect:\n    {expect}\n  hunt:\n    {hunt}\n")
    plan = load(file)
    check_options(plan.cluster)
    assert len(expectations_of(plan)) == len(plan.expectations) == 17 + len(INVARIANTS)
    assert len(plan.steps) > 40
    assert plan.hunt is not None
    assert len(plan.hunt.palette) > 20
