"""The registries of kinds of steps are complete, and their entries fit together."""

from pathlib import Path

import pytest

import sim.faults
import sim.scenario.actions
from sim.faults import ASPECTS, FAULTS
from sim.scenario.actions import KINDS


@pytest.mark.parametrize("package", [sim.faults, sim.scenario.actions])
def test_registry_names_every_file_of_a_kind_of_step(package: object) -> None:
    folder = Path(str(package.__file__)).parent  # type: ignore[attr-defined]
    defining = [
        ".".join(path.relative_to(folder).with_suffix("").parts)
        for path in folder.rglob("*.py")
        if "name=" in path.read_text() and path.stem != "__init__" and path.parent.name != "shared"
    ]
    assert sorted(package.MODULES) == sorted(defining)  # type: ignore[attr-defined]


def test_names_of_kinds_of_steps_are_unique() -> None:
    assert len({kind.name for kind in KINDS.values()}) == len(KINDS)
    assert len(ASPECTS) == sum(len(fault.aspects) for fault in FAULTS)


@pytest.mark.parametrize("name", KINDS)
def test_duration_of_a_step_names_a_parameter(name: str) -> None:
    kind = KINDS[name]
    if kind.duration:
        assert kind.duration in kind.parameters.__struct_encode_fields__


def test_words_of_a_state_come_with_words_of_its_end() -> None:
    words = {what for fault in FAULTS for what in fault.happens}
    begun = {what for what in words if not what.startswith("end of ")}
    assert begun and words == begun | {f"end of {what}" for what in begun}
