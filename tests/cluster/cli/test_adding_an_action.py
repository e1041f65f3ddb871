"""The recipe "A scenario action" of CONTRIBUTING, carried out on a copy of the sources.

The action `rename` writes a label of nodes.  It is one new file and one line in the list of
actions; its parameters, errors and documentation come from that file.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cluster.cli.copied_sources import add_line, copy_sources, orrery

ACTION = '''\
"""rename: a person writes the label `nickname` of nodes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, ClassVar

from msgspec import Meta

from actors.users import PatchAll
from sim.faults.shared.context import Context
from sim.faults.shared.kinds import Action, Stage, StepKind
from sim.faults.shared.parameters import NodesField, Strict


class Rename(Strict):
    """The parameters of `rename`."""

    nodes: NodesField
    to: Annotated[str, Meta(description="The new value of the label.")]


@dataclass(frozen=True, slots=True)
class RenameNodes(Action):
    """These nodes get the label."""

    nodes: tuple[str, ...]
    to: str
    picked: ClassVar[str] = "nodes"

    def begin(self, stage: Stage, step: str) -> None:
        """Begin one command for each node."""
        patch = {"metadata": {"labels": {"nickname": self.to}}}
        for node in self.nodes:
            stage.cluster.admin.do(PatchAll("nodes", "", node, "", patch))


def _check(context: Context, given: Rename) -> RenameNodes:
    if not given.to:
        raise context.error("to", "an empty name", "give the new name")
    return RenameNodes(context.nodes(given.nodes), given.to)


KIND = StepKind(
    name="rename",
    parameters=Rename,
    check=_check,
    documentation="""
A person writes the label `nickname` of nodes.""",
    example="""
- {at: 1m, rename: {nodes: {zone: a}, to: blue}}""",
)
'''
SCENARIO = """\
apiVersion: orrery.dev/v1
kind: Scenario
metadata: {name: renamed}
spec:
  duration: 2m
  cluster: {nodes: [{count: 2}]}
  timeline:
    - {at: 1m, name: renamed, rename: {nodes: {name: node-0}, to: NAME}}
  expect:
    - {name: it has its name, when: "nodes named node-0 have metadata.labels.nickname=blue", within: [0s, 5s], after: renamed}
    - {name: the other has none, never: "nodes named node-1 have metadata.labels.nickname=blue"}
"""


@pytest.fixture(scope="module")
def sources(tmp_path_factory: pytest.TempPathFactory) -> Path:
    copy = copy_sources(tmp_path_factory.mktemp("sources"))
    actions = copy / "sim" / "scenario" / "actions"
    (actions / "rename.py").write_text(ACTION)
    add_line(actions / "__init__.py", '"mark",', '    "rename",')
    return copy


@pytest.mark.slow
def test_added_action_is_carried_out_by_a_run(sources: Path, tmp_path: Path) -> None:
    scenario = tmp_path / "s.yaml"
    scenario.write_text(SCENARIO.replace("NAME", "blue"))
    ran = orrery(sources, "run", scenario, "--no-report")
    assert ran.returncode == 0, ran.stdout + ran.stderr


@pytest.mark.slow
def test_check_of_an_added_action_names_its_place(sources: Path, tmp_path: Path) -> None:
    scenario = tmp_path / "s.yaml"
    scenario.write_text(SCENARIO.replace("NAME", '""'))
    refused = orrery(sources, "validate", scenario)
    assert refused.returncode == 2
    assert "s.yaml:8:" in refused.stdout + refused.stderr
    assert "an empty name" in refused.stdout + refused.stderr
