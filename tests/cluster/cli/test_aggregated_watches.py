"""Garbage collection and quotas of objects that another server holds."""

from __future__ import annotations

from typing import Any

from sim.api.types import Obj
from sim.app.cluster import Cluster
from sim.app.parts.api_services import ApiRequest, resource_list
from tests.cluster.cli.test_api_services import GROUP, api_service, service

VERBS = ["create", "delete", "get", "list", "patch", "watch"]


class Flunders:
    """A server with one resource, without patches but those of the garbage collector."""

    def __init__(self) -> None:
        self.objects: dict[str, Obj] = {}
        self.revision = 0

    def put(self, name: str, **more: Any) -> Obj:
        self.revision += 1
        metadata = {
            "name": name,
            "namespace": "default",
            "uid": f"uid-{name}",
            "resourceVersion": str(self.revision),
            **more,
        }
        obj = {"apiVersion": f"{GROUP}/v1", "kind": "Flunder", "metadata": metadata}
        self.objects[name] = obj
        return obj

    def serve(self, request: ApiRequest) -> tuple[int, Obj]:
        parts = request.path.strip("/").split("/")
        if len(parts) == 3:
            row = {"name": "flunders", "kind": "Flunder", "namespaced": True, "verbs": VERBS}
            return 200, resource_list(f"{GROUP}/v1", row)
        if parts[-1] == "flunders":
            metadata = {"resourceVersion": str(self.revision)}
            return 200, {"metadata": metadata, "items": list(self.objects.values())}
        found = self.objects.get(parts[-1])
        if found is None:
            return 404, {"kind": "Status", "reason": "NotFound", "code": 404, "message": "none"}
        if request.method == "DELETE":
            self.revision += 1
            del self.objects[parts[-1]]
        return 200, found


def owned_by(owner: Obj) -> dict[str, Any]:
    metadata = owner["metadata"]
    reference = {"apiVersion": owner["apiVersion"], "kind": owner["kind"]}
    return {"ownerReferences": [{**reference, "name": metadata["name"], "uid": metadata["uid"]}]}


def config_map(name: str, **metadata: Any) -> Obj:
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": name, "namespace": "default", **metadata},
    }


async def test_owners_dependents_and_counts_of_another_server_are_followed() -> None:
    flunders = Flunders()
    async with Cluster(naming="kubernetes") as cluster:

        def used() -> str:
            quota = cluster.get("resourcequotas", "q")
            assert quota is not None
            found: dict[str, str] = quota.get("status", {}).get("used", {})
            return found.get(f"count/flunders.{GROUP}", "")

        handle = cluster.add_api_service("default/wardle", flunders.serve)
        cluster.apply(service("ExternalName", externalName="wardle.invalid"), api_service())
        owner = flunders.put("owner")
        flunders.put("dependent", **owned_by(owner))
        hard = {"spec": {"hard": {f"count/flunders.{GROUP}": "5"}}}
        cluster.apply({"apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": "q"}, **hard})
        await cluster.run_for("65s")
        cluster.apply(config_map("owned", **owned_by(owner)), config_map("owner"))
        await cluster.run_for("1s")
        made = cluster.get("configmaps", "owner")
        assert made is not None
        flunders.put("of-config-map", **owned_by(made))
        handle.changed()
        await cluster.run_for("5m")
        assert used() == "3"
        # Its dependents are deleted here and there.
        del flunders.objects["owner"]
        flunders.revision += 1
        handle.changed()
        await cluster.run_for("2s")
        assert cluster.get("configmaps", "owned") is None
        assert list(flunders.objects) == ["of-config-map"]
        cluster.request("delete", "configmaps", "default", "owner")
        await cluster.run_for("11s")  # without a notification the next list shows it
        assert flunders.objects == {}
        await cluster.run_for("15s")
        assert used() == "0"
