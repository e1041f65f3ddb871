"""The document in the header of a trace has the plan of the file that was run."""

from dataclasses import replace
from pathlib import Path

import msgpack
import pytest

from sim.app.reference.shipped import scenarios_folder
from sim.scenario.compile import compile_plan, load
from sim.scenario.plan.digest import plan_digest
from sim.scenario.plan.written_out import written_out
from sim.scenario.read.source import Document

FILES = [file for file in sorted(scenarios_folder().rglob("*.yaml")) if "kind: Scenario" in file.read_text()]


@pytest.mark.slow
@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_document_of_a_shipped_scenario_has_its_plan_without_its_folder(file: Path, tmp_path: Path) -> None:
    plan = load(file)
    assert plan.document is not None
    document = msgpack.unpackb(msgpack.packb(written_out(plan.document, plan)))
    again = replace(compile_plan(Document("", document), tmp_path), hunt=plan.hunt, variants=plan.variants)
    assert plan_digest(again) == plan_digest(plan)
