"""Classes of `sim.dataclass` beside the same classes of the standard library."""

from __future__ import annotations

import copy
import dataclasses
import pickle
from collections.abc import Callable
from functools import partial
from typing import Any

import pytest

from sim.dataclass import dataclass


def classes(decorate: Any) -> dict[str, Any]:
    """One class of each form that the sources have."""

    @decorate
    class Bare:
        a: int
        b: list[int] = dataclasses.field(default_factory=list)

    @decorate(frozen=True, slots=True)
    class Frozen:
        a: int
        b: str = "x"
        c: tuple[int, ...] = ()
        d: dict[str, int] = dataclasses.field(default_factory=dict, compare=False)

    @decorate(frozen=True, slots=True)
    class Below(Frozen):
        e: int = 3

    @decorate(slots=True)
    class Open:
        a: int
        count: int = dataclasses.field(init=False, default=7)
        late: int = dataclasses.field(init=False, repr=False)

        def __post_init__(self) -> None:
            self.late = self.a * 2

    @decorate(frozen=True, kw_only=True)
    class Named:
        a: int = 1
        b: int

    @decorate(frozen=True, eq=False)
    class Same:
        a: int

    @decorate(frozen=True, slots=True)
    class Own:
        a: int

        def __repr__(self) -> str:
            return "own"

        def __eq__(self, other: object) -> bool:
            return True

        def __hash__(self) -> int:
            return 5

    @decorate(frozen=True, slots=True)
    class Empty:
        pass

    return {name: cls for name, cls in locals().items() if isinstance(cls, type)}


OURS, THEIRS = classes(dataclass), classes(dataclasses.dataclass)


def outcome(act: Callable[[], Any]) -> Any:
    """What an act returns, or the type of what it raises."""
    try:
        return act()
    except Exception as error:
        return type(error)


ARGUMENTS: list[tuple[tuple[Any, ...], dict[str, Any]]] = [
    ((), {}),
    ((1,), {}),
    ((1, "y"), {}),
    ((), {"a": 1, "b": [2]}),
    ((1, "y", (1,), {"k": 1}), {}),
    ((1,), {"d": {"k": 2}}),
    ((1,), {"unknown": 1}),
]


@pytest.mark.parametrize("name", THEIRS)
def test_classes_behave_as_those_of_the_standard_library(name: str) -> None:
    def described(classes: dict[str, Any]) -> list[Any]:
        made = [outcome(partial(classes[name], *given, **named)) for given, named in ARGUMENTS]
        found: list[Any] = [one if isinstance(one, type) else "made" for one in made]
        ones = [one for one in made if not isinstance(one, type)]
        if name != "Own":
            assert ones
        for one in ones:
            found += [repr(one), outcome(lambda: dataclasses.asdict(one))]  # noqa: B023
            for field in dataclasses.fields(one):
                changed = copy.copy(one)
                found.append(outcome(lambda: setattr(changed, field.name, 9)))  # noqa: B023
                found.append(outcome(lambda: delattr(changed, field.name)))  # noqa: B023
            found.append(outcome(lambda: repr(dataclasses.replace(one, a=4))))  # noqa: B023
            found += [repr(copy.copy(one)), repr(copy.deepcopy(one))]
            found += [one == two for two in ones] + [one == 1]
            hashes = [outcome(lambda: hash(each)) for each in (one, copy.copy(one))]  # noqa: B023
            found.append(hashes[0] if isinstance(hashes[0], type) else hashes[0] == hashes[1])
        found += [field.name for field in dataclasses.fields(classes[name])]
        return [*found, classes[name].__match_args__, classes[name].__doc__ is None]

    assert described(OURS) == described(THEIRS)


@dataclass(frozen=True, slots=True)
class Kept:
    """At the top of a module, where pickle finds it."""

    a: int
    b: str = "x"


def test_frozen_instances_survive_pickling() -> None:
    assert pickle.loads(pickle.dumps(Kept(3))) == Kept(3)


def test_constructor_is_compiled_by_the_first_call() -> None:
    before = classes(dataclass)["Frozen"]
    first = before.__init__
    assert (before(1), before(1).a) == (before(1), 1)
    assert before.__init__ is not first
    with pytest.raises(TypeError, match="missing 1 required positional argument: 'a'"):
        before()
