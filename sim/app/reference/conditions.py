"""The language of conditions and events, as rows with an example each.

`sim.check.condition` reads what is described here; a test reads each example with it.
"""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple


class ConditionRow(NamedTuple):
    """One form of the language.

    part: "how many", "which objects", "what is true of them", "what runs", "what users get",
        "what happens" or "the cluster"
    example: a whole condition, or an event as YAML
    """

    part: str
    form: str
    meaning: str
    example: str


SYNTAX = "[HOW MANY] RESOURCE [WHICH] ... (have | has | are | is) PREDICATE [and PREDICATE] ...  |  ... exist"

_TABLE = Path(__file__).with_name("conditions.txt")
CONDITIONS = tuple(
    ConditionRow(*line.split(" | ")) for line in _TABLE.read_text(encoding="utf-8").splitlines()[1:]
)
