"""The policy file of the audit: its place, and the places of its problems."""

from pathlib import Path

import pytest

from sim.api.audit.policy import Level
from sim.app.audit.settings import read_policy
from sim.errors import InputError
from sim.ident import NAMES
from sim.options.apiserver.audit import POLICY
from sim.scenario.read.option_file import OptionFile

N = NAMES["kubernetes"]
HEAD = "apiVersion: audit.k8s.io/v1\nkind: Policy\n"


def written(tmp_path: Path, text: str) -> Path:
    file = tmp_path / "policy.yaml"
    file.write_text(text)
    return file


def file_of(path: Path) -> OptionFile:
    return OptionFile(POLICY, str(path))


def test_policy_is_read_from_yaml(tmp_path: Path) -> None:
    found = read_policy(file_of(written(tmp_path, f"{HEAD}rules:\n- level: Metadata\n")), N)
    assert [scope.level for _, scope in found.rules] == [Level.METADATA]


@pytest.mark.parametrize(
    ("text", "place", "says"),
    [
        (f"{HEAD}rules:\n- level: Metadata\n- level: All\n", "5:10", "rules[1].level: Unsupported value"),
        (f"{HEAD}rules:\n- verbs: [get]\n", "4:3", "rules[0].level: Required value"),
        (f"{HEAD}rules: []\n", "1:1", "loaded illegal policy with 0 rules"),
        (f"{HEAD}rules:\n- level: None\n  omitStages: [a, b]\n", "5:16", "omitStages[1]"),
        ("kind: Policy\n", "1:1", "apiVersion"),
        (f"{HEAD}rules:\n- level: [\n", "5:1", ""),
    ],
)
def test_wrong_policy_is_refused_with_its_place(tmp_path: Path, text: str, place: str, says: str) -> None:
    file = written(tmp_path, text)
    with pytest.raises(InputError) as error:
        read_policy(file_of(file), N)
    assert error.value.place == f"{file}:{place}"
    assert f"option {POLICY}: " in str(error.value)
    assert says in str(error.value)


def test_missing_policy_names_the_option_and_the_file(tmp_path: Path) -> None:
    with pytest.raises(InputError) as error:
        read_policy(OptionFile(POLICY, str(tmp_path / "none.yaml"), "s.yaml:3:4"), N)
    assert str(error.value) == f"s.yaml:3:4: option {POLICY}: {tmp_path / 'none.yaml'}: no such file"


def test_policy_is_one_document(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="holds 2 documents"):
        read_policy(file_of(written(tmp_path, f"{HEAD}---\n{HEAD}")), N)
