"""The first scenarios that `orrery init NAME --like KIND` writes: small, with comments, to change."""

from __future__ import annotations

from pathlib import Path

_FOLDER = Path(__file__).with_name("first_scenarios")
# The kinds, each a file of that name in which NAME and SCHEMA stand for what is given.
FIRST = ("node-loss", "rollout", "webhook", "failover")


def first_scenario(kind: str, name: str, schema: str) -> str:
    """The text of a first scenario.  kind: one of `FIRST`; schema: the file of the JSON Schema"""
    text = (_FOLDER / f"{kind}.yaml").read_text(encoding="utf-8")
    return text.replace("NAME", name).replace("SCHEMA", schema)
