"""A contributor adds a fault: one new file, and one line in the registry.

The sources are copied, the fault is added to the copy, and a scenario that uses it is run there by
the command line.  The docstring of `sim.faults` describes the steps that this test carries out.
"""

from __future__ import annotations

from filecmp import dircmp
from pathlib import Path

import pytest

from tests.cluster.cli.copied_sources import ROOT, add_line, copy_sources, orrery

FAULT = '''\
"""jam: the container runtime of nodes reports an error that the scenario chooses."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, ClassVar

from msgspec import Meta

from sim.faults.shared.context import Context
from sim.faults.shared.kinds import Ends, Fault, Imposed, Stage
from sim.faults.shared.ledger import END_OF, Aspect, Ledger
from sim.faults.shared.parameters import NodesField, Strict


class Jam(Strict):
    """The parameters of `jam`."""

    nodes: NodesField
    message: Annotated[str, Meta(description="The error that the runtime reports.")] = "jammed"


@dataclass(frozen=True, slots=True)
class JamNodes(Imposed):
    """The runtime of these nodes reports an error."""

    nodes: tuple[str, ...]
    message: str
    picked: ClassVar[str] = "nodes"

    def impose(self, stage: Stage, step: str) -> None:
        """The runtime of each node begins to report the error."""
        for node in self.nodes:
            stage.faults.impose(step, node, "jam", self.message)


def _check(context: Context, given: Jam) -> JamNodes:
    if not given.message:
        raise context.error("message", "an empty message is no error", "give the words of the runtime")
    return JamNodes(context.nodes(given.nodes), given.message)


def _settle(ledger: Ledger, name: str) -> None:
    messages = ledger.values(name, "jam")
    with ledger.noted(name, "jam", bool(messages), ", ".join(messages)):
        ledger.cluster.nodes[name].fail_runtime(", ".join(messages))


FAULT = Fault(
    name="jam",
    parameters=Jam,
    check=_check,
    ends=Ends.LATER,
    documentation="""
The container runtime of nodes reports an error.""",
    example="""
- {at: 1m, jam: {nodes: {zone: a}, message: "no space"}, for: 5m}""",
    aspects=(Aspect("jam", _settle),),
    happens={"jam": "its container runtime is jammed", f"{END_OF}jam": "its container runtime works"},
)
'''
SCENARIO = """\
apiVersion: orrery.dev/v1
kind: Scenario
metadata: {name: jammed}
spec:
  duration: 4m
  cluster: {nodes: [{count: 2}]}
  timeline:
    - {at: 1m, name: blocked, jam: {nodes: {name: node-0}, message: MESSAGE}, for: 1m}
  expect:
    - {name: the node is not ready, when: nodes named node-0 have Ready=False, within: [0s, 60s], after: blocked}
    - {name: it is ready again, when: nodes named node-0 have Ready=True, within: [0s, 60s], after: end of blocked}
    - {name: the other node stays ready, never: nodes named node-1 have Ready=False}
"""


def changed_files(left: Path, right: Path) -> tuple[list[str], list[str]]:
    """The files that only the second folder holds, and those that differ."""
    added, differing = [], []
    waiting = [dircmp(left, right, ignore=["__pycache__"])]
    while waiting:
        compared = waiting.pop()
        added += [str((Path(compared.right) / name).relative_to(right)) for name in compared.right_only]
        differing += [str((Path(compared.right) / name).relative_to(right)) for name in compared.diff_files]
        waiting += [compared.subdirs[name] for name in sorted(compared.subdirs)]
    return added, differing


@pytest.fixture(scope="module")
def sources(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of the sources to which the fault is added."""
    copy = copy_sources(tmp_path_factory.mktemp("sources"))
    (copy / "sim" / "faults" / "machines" / "jam.py").write_text(FAULT)
    add_line(copy / "sim" / "faults" / "__init__.py", '"servers.compact",', '    "machines.jam",')
    return copy


def test_new_fault_touches_one_new_file_and_one_line_of_the_registry(sources: Path) -> None:
    assert changed_files(ROOT / "sim", sources / "sim") == (
        ["faults/machines/jam.py"],
        ["faults/__init__.py"],
    )
    before = (ROOT / "sim" / "faults" / "__init__.py").read_text().splitlines()
    after = (sources / "sim" / "faults" / "__init__.py").read_text().splitlines()
    assert len(after) == len(before) + 1


@pytest.mark.slow
def test_new_fault_is_imposed_and_lifted_and_named_by_why(sources: Path, tmp_path: Path) -> None:
    scenario, trace = tmp_path / "s.yaml", tmp_path / "trace"
    scenario.write_text(SCENARIO.replace("MESSAGE", "no space"))
    ran = orrery(sources, "run", scenario, "--trace", trace, "--no-report")
    assert ran.returncode == 0, ran.stdout + ran.stderr
    told = orrery(sources, "why", trace, "node/node-0", "--what", "ready=False").stdout
    assert 'step "blocked": jam' in told
    assert "its container runtime is jammed: no space" in told
    ended = orrery(sources, "why", trace, "node/node-0", "--what", "ready=True").stdout
    assert 'step "blocked" ends' in ended


def test_check_of_a_new_fault_names_the_place_in_the_file(sources: Path, tmp_path: Path) -> None:
    scenario = tmp_path / "s.yaml"
    scenario.write_text(SCENARIO.replace("MESSAGE", '""'))
    refused = orrery(sources, "validate", scenario)
    assert refused.returncode == 2
    assert "s.yaml:8:" in refused.stdout + refused.stderr
    assert "an empty message is no error" in refused.stdout + refused.stderr
