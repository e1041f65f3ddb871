"""The worked example of CONTRIBUTING, "Add an option": one field of a daemon's options class.

The example adds `example-period` to the options of the controller manager in a subclass; a real
option is a field of the class itself, has its row in `sim/options/effects.txt`, and the module that
uses the field is its effect.
"""

from __future__ import annotations

import pytest

from sim.dataclass import dataclass
from sim.errors import InputError
from sim.options.base import duration, effects_of, more_than, option, parse
from sim.options.controllers.manager import ControllerManagerOptions


@dataclass(frozen=True, kw_only=True)
class ExampleOptions(ControllerManagerOptions):
    """The options of a controller manager, and one more."""

    example_period_us: int = option(
        "example-period", duration, "30s", check=more_than(0), effect="pause between passes"
    )


def test_added_option_has_its_default_in_microseconds() -> None:
    assert parse(ExampleOptions, {}).example_period_us == 30_000_000


@pytest.mark.parametrize("name", ["example-period", "--example-period"])
def test_added_option_is_read_from_text_of_its_type(name: str) -> None:
    assert parse(ExampleOptions, {name: "1m30s"}).example_period_us == 90_000_000


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"example-period": "fast"}, "option example-period"),
        ({"example-period": "0s"}, "option example-period"),
        ({"example-periode": "1s"}, "unknown option example-periode"),
    ],
    ids=["not a duration", "outside of its bounds", "misspelled"],
)
def test_wrong_use_of_added_option_is_refused_with_its_place(given: dict[str, str], message: str) -> None:
    with pytest.raises(InputError, match=message) as refused:
        parse(ExampleOptions, given, place="outage.yaml:7:9")
    assert refused.value.place == "outage.yaml:7:9"


def test_added_option_is_documented_with_its_effect() -> None:
    assert effects_of(ExampleOptions)["example-period"] == "pause between passes"
