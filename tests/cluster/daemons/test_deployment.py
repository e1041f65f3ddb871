"""The commands of the page, of the units and of the containers that start a cluster of processes."""

from __future__ import annotations

import re
import shlex
import signal
from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from pathlib import Path

import pytest
import yaml

from sim.app.cli.main import main
from sim.app.daemons.flags import parse_flags
from sim.app.daemons.options import options_in
from sim.app.daemons.programs import PROGRAMS, program_named
from sim.ident import NAMES
from tests.cluster.daemons.running import client_of, daemon, etcd, free_port, needs_etcd, process, until
from tests.cluster.daemons.test_controllers_alone import DEPLOYMENTS, WEB, available

ROOT = Path(__file__).resolve().parents[3]
PAGE = ROOT / "docs" / "how-to" / "run-components-alone.md"
ETCD = "http://127.0.0.1:2379"
PORTS = {"orchlet": (f"--port={free_port()}", "--healthz-port=0", "--read-only-port=0")}
Commands = Mapping[str, list[str]]


def joined(text: str) -> str:
    return re.sub(r"\\\n\s*", " ", text)


def of_page() -> list[str]:
    """The commands of the page, in its order."""
    blocks = re.findall(r"```bash\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)
    return [line for block in blocks for line in joined(block).splitlines()]


def of_units() -> list[str]:
    """The commands that the units run."""
    units = sorted((ROOT / "deploy" / "systemd").glob("*.service"))
    texts = [joined(unit.read_text(encoding="utf-8")) for unit in units]
    return [found for text in texts for found in re.findall(r"^ExecStart=(.*)$", text, re.MULTILINE)]


def of_containers() -> list[str]:
    """The commands of the containers of this project."""
    found = yaml.safe_load((ROOT / "deploy" / "compose.yaml").read_text(encoding="utf-8"))
    own = [each for each in found["services"].values() if each["image"] == "orrery"]
    return [shlex.join([*each["entrypoint"], *each["command"]]) for each in own]


PLACES = {"page": of_page, "units": of_units, "containers": of_containers}


def programs(lines: list[str]) -> Commands:
    """The words of each component by its command."""
    words = [shlex.split(line) for line in lines]
    return {Path(each[0]).name: each[1:] for each in words if Path(each[0]).name.startswith("orch")}


@pytest.mark.parametrize("place", PLACES)
def test_commands_start_every_component_with_options_that_it_knows(place: str) -> None:
    commands = programs(PLACES[place]())
    assert list(commands) == sorted(
        {PROGRAMS[part]().name(NAMES["orch"]) for part in PROGRAMS} & set(commands)
    )
    assert len(commands) >= 3
    for command, words in commands.items():
        assert words[:2] == ["--naming", "kubernetes"]
        program, names = program_named(command)[0], NAMES["kubernetes"]
        values, asked = parse_flags(words[2:], program.known(names))
        assert asked == ""
        assert values.keys() & program.refused(names).keys() == set()
        for options in program.options:
            options_in(
                options, {name: value for name, value in values.items() if "config" not in name}, names
            )


def test_units_and_containers_give_the_same_options() -> None:
    def moved(words: list[str], folder: str, server: str) -> set[str]:
        text = " ".join(words).replace("=", " ").replace(folder, "CERTS").replace(server, "ETCD")
        return set(text.replace("/var/lib/orrery/agent", "/data").replace("%H", "node-1").split())

    units, containers = programs(of_units()), programs(of_containers())
    assert units.keys() == containers.keys()
    for command, words in units.items():
        expected = moved(words, "/etc/orrery", ETCD)
        assert moved(containers[command], "/certs", "http://etcd:2379") == expected


def started(
    commands: Commands, folder: Path, changes: Mapping[str, str], port: int, stack: ExitStack
) -> Iterator[tuple[str, Path]]:
    """Start the components in their order; yields the log of each.

    changes: parts of their words that are others in a test
    """
    for command, given in commands.items():
        words = [*given]
        for old, new in changes.items():
            words = [word.replace(old, new) for word in words]
        words += PORTS.get(command, (f"--secure-port={port if command == 'orch-apiserver' else 0}",))
        log = folder / f"{command}.log"
        running = stack.enter_context(process(daemon(command, *words), log))
        stack.callback(running.send_signal, signal.SIGTERM)
        if command == "orch-apiserver":
            until(lambda log=log: "Serving securely" in log.read_text(), log)  # type: ignore[misc]
        yield command, log


def works(certs: Path, log: Path) -> None:
    """Create a Deployment as kubectl does; its pods become available."""
    with client_of(certs / "admin.conf") as client:
        assert client.post(DEPLOYMENTS, json=WEB).status_code == 201
        until(lambda: available(client) == 2, log)
        authority = client.get("/api/v1/namespaces/default/configmaps/kube-root-ca.crt").json()["data"]
        assert authority["ca.crt"].strip() == (certs / "ca.crt").read_text().strip()
        pod = client.get("/api/v1/namespaces/default/pods").json()["items"][0]["metadata"]["name"]
        assert client.get(f"/api/v1/namespaces/default/pods/{pod}/log").status_code == 200


@pytest.mark.slow
def test_the_page_starts_a_cluster(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    certs, *_ = (shlex.split(line) for line in of_page() if line.startswith("orrery certs"))
    port = free_port()
    assert main([*certs[1:], "--server", f"https://127.0.0.1:{port}"]) == 0
    with ExitStack() as stack:
        logs = dict(started(programs(of_page()), tmp_path, {}, port, stack))
        works(tmp_path / "certs", logs["orchlet"])
    assert (tmp_path / "data" / "log").stat().st_size > 0


@pytest.mark.slow
@needs_etcd
def test_the_units_start_a_cluster_over_etcd(tmp_path: Path) -> None:
    certs, port = tmp_path / "certs", free_port()
    assert main(["certs", str(certs), "--server", f"https://127.0.0.1:{port}", "--node", "node-1"]) == 0
    with etcd(tmp_path) as (_, url), ExitStack() as stack:
        changes = {"/etc/orrery": str(certs), "/var/lib/orrery": str(tmp_path), ETCD: url, "%H": "node-1"}
        logs = dict(started(programs(of_units()), tmp_path, changes, port, stack))
        works(certs, logs["orchlet"])
