"""What commands and ports answer to probes."""

from __future__ import annotations

from typing import Any

import pytest

from actors.node.runtime.probe_answers import Answer, answer_of
from sim.units import SECOND

HEALTHY = "touch /run/healthy; sleep 30; rm -f /run/healthy; sleep 600"


def answer(container: dict[str, Any], probe: dict[str, Any], **spec: Any) -> Answer | None:
    containers = [{"name": "c", "image": "i", **container, "livenessProbe": probe}]
    return answer_of({"containers": [*containers, *spec.pop("others", [])], **spec}, "Liveness", "c")


def script(text: str, image: str = "busybox") -> dict[str, Any]:
    return {"image": image, "args": ["/bin/sh", "-c", text]}


def run(*command: str) -> dict[str, Any]:
    return {"exec": {"command": list(command)}}


@pytest.mark.parametrize(
    "probe",
    [
        run("cat", "/run/healthy"),
        run("test", "-f", "/run/healthy"),
        run("[", "-e", "/run/healthy", "]"),
        run("sh", "-c", "ls -l /run/healthy"),
    ],
)
def test_file_is_read_from_its_creation_to_its_removal(probe: dict[str, Any]) -> None:
    found = answer(script(HEALTHY), probe)
    assert found is not None
    assert [found.succeeds(at * SECOND) for at in (0, 29, 30, 600)] == [True, True, False, False]
    assert found.next_change_us(0) == 30 * SECOND and found.next_change_us(30 * SECOND) is None


def test_file_that_is_written_later_fails_its_probe_until_then() -> None:
    found = answer(script("sleep 20; echo ok > /data/f; sleep 600"), run("cat", "/data/f"))
    assert found is not None
    assert [found.succeeds(at * SECOND) for at in (0, 19, 20)] == [False, False, True]


@pytest.mark.parametrize(
    ("image", "text"),
    [
        ("busybox", "cat: can't open '/run/healthy': No such file or directory\n"),
        ("r/a:1", "cat: /run/healthy: No such file or directory\n"),
    ],
)
def test_output_of_missing_file_is_that_of_the_image_tools(image: str, text: str) -> None:
    found = answer(script(HEALTHY, image), run("cat", "/run/healthy"))
    assert found is not None and found.output == text


@pytest.mark.parametrize(
    ("command", "succeeds"),
    [
        (["false"], False),
        (["sh", "-c", "exit 1"], False),
        (["true"], True),
        (["sh", "-c", "true || nginx"], True),
    ],
)
def test_known_command_answers_with_its_exit_code(command: list[str], succeeds: bool) -> None:
    found = answer({}, run(*command))
    assert found is not None and found.succeeds(0) is succeeds


@pytest.mark.parametrize(
    ("container", "probe"),
    [
        ({}, run("pg_isready")),
        ({}, run("cat", "/run/healthy")),
        (script("touch /run/a; serve"), run("cat", "/run/b")),
        (script("sleep 600") | {"volumeMounts": [{"mountPath": "/run"}]}, run("cat", "/run/healthy")),
        (script("sleep 600"), run("sh", "-c", "cat /run/healthy | grep ok")),
        (script("sleep 600"), run("cat", "healthy")),
        ({}, run("curl", "-f", "http://localhost:8080/healthz")),
        ({}, run("sh", "-c", "wget -q localhost || exit 1")),
    ],
)
def test_command_of_unknown_outcome_gets_no_answer(container: dict[str, Any], probe: dict[str, Any]) -> None:
    assert answer(container, probe) is None


def test_file_of_the_image_exists_and_one_in_empty_folder_does_not() -> None:
    found = answer(script("sleep 600"), run("cat", "/etc/hostname"))
    assert found is not None and found.succeeds(0)
    found = answer(script("sleep 600"), run("cat", "/run/healthy"))
    assert found is not None and not found.succeeds(0)


@pytest.mark.parametrize(
    ("container", "spec"),
    [
        ({"ports": [{"containerPort": 8080}]}, {}),
        ({}, {}),
        ({"command": ["sleep", "9"]}, {"others": [{"name": "d", "ports": [{"containerPort": 8080}]}]}),
        ({"command": ["sleep", "9"]}, {"hostNetwork": True}),
    ],
)
def test_port_that_may_be_open_gets_no_answer(container: dict[str, Any], spec: dict[str, Any]) -> None:
    assert answer(container, {"httpGet": {"port": 8080}}, **spec) is None


@pytest.mark.parametrize(
    ("container", "probe", "output"),
    [
        (
            {"command": ["sleep", "9"]},
            {"httpGet": {"port": 8080, "path": "healthz"}},
            'Get "http://{ip}:8080/healthz": dial tcp {ip}:8080: connect: connection refused',
        ),
        (
            {"ports": [{"containerPort": 80}]},
            {"tcpSocket": {"port": "8080"}},
            "dial tcp {ip}:8080: connect: connection refused",
        ),
        (
            {"image": "nginx:1"},
            {"grpc": {"port": 8080}, "timeoutSeconds": 3},
            'timeout: failed to connect service "{ip}:8080" within 3s: context deadline exceeded',
        ),
    ],
)
def test_port_that_nothing_opens_is_refused(
    container: dict[str, Any], probe: dict[str, Any], output: str
) -> None:
    found = answer(container, probe)
    assert found is not None and not found.succeeds(0) and found.output == output


def test_known_image_listens_on_its_own_port() -> None:
    assert answer({"image": "nginx:1"}, {"httpGet": {"port": 80}}) is None
    assert answer({"image": "redis"}, {"tcpSocket": {"port": 80}}) is not None
