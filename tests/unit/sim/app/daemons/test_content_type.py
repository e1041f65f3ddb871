"""The form of the bodies of processes that run alone, as flags and configuration files say."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from sim.app.daemons import scheduler
from sim.app.daemons.agent import composition
from sim.app.daemons.connection import connection
from sim.errors import InputError
from sim.ident import NAMES
from sim.wire.rest.access import Access

PROTOBUF = NAMES["kubernetes"].media_protobuf


def config_file(folder: Path) -> str:
    """A client configuration."""
    cluster = {"name": "k", "cluster": {"server": "https://127.0.0.1:1"}}
    contexts = [{"name": "c", "context": {"cluster": "k"}}]
    file = folder / "config"
    file.write_text(yaml.safe_dump({"current-context": "c", "contexts": contexts, "clusters": [cluster]}))
    return str(file)


@pytest.mark.parametrize("accepted", ["", "application/json"])
def test_bodies_have_the_form_that_a_configuration_file_says(
    accepted: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "scheduler.yaml"
    content = {
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
        "clientConnection": {
            "kubeconfig": config_file(tmp_path),
            "contentType": PROTOBUF,
            "acceptContentTypes": accepted,
        },
    }
    file.write_text(yaml.safe_dump(content))
    found: list[Access] = []

    def end(_names: Any, _make: Any, _following: Any) -> int:
        return 0

    def note(_names: Any, _values: Any, access: Access, _name: str) -> None:
        found.append(access)

    monkeypatch.setattr(scheduler, "run_process", end)
    monkeypatch.setattr(scheduler, "following_of", note)
    assert scheduler.run(NAMES["kubernetes"], {"config": str(file)}, lambda _: None) == 0
    assert [(access.server, access.packed) for access in found] == [("https://127.0.0.1:1", True)]
    assert [access.accepted for access in found] == [accepted]


@pytest.mark.parametrize(
    "bad", ["application/yaml", "application/json,text/plain", "application/json;as=Table", ","]
)
def test_form_of_answers_that_is_not_decoded_is_refused(bad: str) -> None:
    names = NAMES["kubernetes"]
    with pytest.raises(
        InputError, match=r"acceptContentTypes: no decoder for .*, wanted application/json or"
    ):
        connection(names, {"master": "a"}, bad)
    for good in ("", f"{PROTOBUF}, application/json;q=0.9", "*/*", "Application/JSON"):
        assert connection(names, {"master": "a"}, good).accepted == good


@pytest.mark.parametrize(("by_file", "packed"), [(False, False), (True, True)])
def test_an_agent_sends_bodies_in_the_form_of_flag_or_file(
    by_file: bool, packed: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "agent.yaml"
    head = {"apiVersion": "kubelet.config.k8s.io/v1beta1", "kind": "KubeletConfiguration"}
    file.write_text(yaml.safe_dump({**head, "contentType": PROTOBUF}))
    values = {"kubeconfig": config_file(tmp_path), "cert-dir": str(tmp_path), "config": str(file)}
    found: list[Any] = []

    def note(_names: Any, make: Any, _following: Any) -> int:
        found.append(make.__self__._access.main)
        return 0

    monkeypatch.setattr(composition, "run_process", note)
    more = {} if by_file else {"kube-api-content-type": "application/json"}
    assert composition.run(NAMES["kubernetes"], {**values, **more}, lambda _: None) == 0
    assert [access.packed for access in found] == [packed]
    assert found[0].accepted == (f"{PROTOBUF},application/json" if packed else "")
