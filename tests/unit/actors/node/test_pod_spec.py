"""What a pod's spec says of its requests."""

from typing import Any

from actors.node.pod_spec import requests_of
from tests.unit.actors.node.pods.test_pod_status import Obj, pod


def asking(cpu: str = "1", **spec: Any) -> Obj:
    obj = pod(**spec)
    obj["spec"]["containers"][0]["resources"] = {"requests": {"cpu": cpu}}
    return obj


def test_requests_are_larger_of_container_sum_and_any_init_container() -> None:
    obj = asking("1", initContainers=[{"name": "i", "image": "i", "resources": {"requests": {"cpu": "3"}}}])
    assert requests_of(obj).amounts == (("cpu", 3000),)
