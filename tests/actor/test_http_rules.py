"""Rules of single requests over HTTP: duplicate keys, methods, subresources, options of deletes."""

from __future__ import annotations

import gzip
import json
import re
from base64 import b64decode
from math import inf
from pathlib import Path
from typing import Any

import pytest
import trio
import trio.testing
import yaml

from sim.api.openapi.gnostic import MEDIA_V3
from sim.app.cluster import Cluster
from sim.app.serving import serve
from sim.app.serving.job_notes import tell_of_endless_jobs
from sim.ident import NAMES
from sim.kernel import NEVER_US
from sim.scenario.plan.plan import ClusterPlan, ComponentPlan, Plan
from sim.units import parse_time
from sim.wire.authority import Authority
from sim.wire.tls import server_context
from tests.actor.test_http import MAPS, asked, config_map, served
from tests.actor.test_http_custom import BASE, GROUP, defined, passed, widget

N = NAMES["kubernetes"]
WATCHED = "/api/v1/watch/namespaces/default/configmaps"
NOT_ALLOWED = 405


# --- keys that a patch holds twice ----------------------------------------------------------------


@pytest.mark.parametrize("media", [N.media_strategic_patch, N.media_merge_patch])
async def test_duplicate_key_in_patch_keeps_other_keys_and_last_value_wins(media: str) -> None:
    async with served() as (_, client):
        await client.post(MAPS, json=config_map("a"))
        text = b'{"data": {"x": "1", "x": "2"}, "metadata": {"labels": {"l": "1", "l": null}}}'
        patched = await client.patch(f"{MAPS}/a", content=text, headers={"Content-Type": media})
        assert patched.json()["data"] == {"k": "v", "x": "2"}
        assert "labels" not in patched.json()["metadata"]
        assert patched.headers.get_list("Warning") == [
            '299 - "duplicate field \\"data.x\\""',
            '299 - "duplicate field \\"metadata.labels.l\\""',
        ]


async def test_duplicate_key_in_list_item_of_strategic_patch_merges_the_item() -> None:
    container = {"name": "c", "image": "i", "env": [{"name": "E", "value": "1"}]}
    pod = {"metadata": {"name": "p"}, "spec": {"containers": [container]}}
    async with served() as (_, client):
        pods = MAPS.replace("configmaps", "pods")
        await client.post(
            MAPS.replace("configmaps", "serviceaccounts"), json={"metadata": {"name": "default"}}
        )
        assert (await client.post(pods, json=pod)).status_code == 201
        text = b'{"spec": {"containers": [{"name": "c", "image": "j", "image": "k"}]}}'
        headers = {"Content-Type": N.media_strategic_patch}
        patched = (await client.patch(f"{pods}/p", content=text, headers=headers)).json()
        (found,) = patched["spec"]["containers"]
        assert (found["image"], found["env"]) == ("k", [{"name": "E", "value": "1"}])


async def test_duplicate_key_in_patch_of_scale_is_warned_about() -> None:
    spec = {
        "replicas": 1,
        "selector": {"matchLabels": {"a": "b"}},
        "template": {
            "metadata": {"labels": {"a": "b"}},
            "spec": {"containers": [{"name": "c", "image": "i"}]},
        },
    }
    deployments = "/apis/apps/v1/namespaces/default/deployments"
    async with served() as (_, client):
        await client.post(deployments, json={"metadata": {"name": "d"}, "spec": spec})
        headers = {"Content-Type": N.media_strategic_patch}
        text = b'{"spec": {"replicas": 2, "replicas": 3}}'
        patched = await client.patch(f"{deployments}/d/scale", content=text, headers=headers)
        assert patched.json()["spec"] == {"replicas": 3}
        assert patched.headers["Warning"] == '299 - "duplicate field \\"spec.replicas\\""'


# --- paths below /watch ---------------------------------------------------------------------------


@pytest.mark.parametrize("method", ["POST", "PUT", "PATCH", "DELETE", "HEAD"])
async def test_write_below_watch_is_refused_and_changes_nothing(method: str) -> None:
    async with served() as (cluster, client):
        await client.post(MAPS, json=config_map("a"))
        before = cluster.storage.store.revision
        for path in (WATCHED, f"{WATCHED}/a", "/api/v1/watch/configmaps"):
            refused = await client.request(method, path, json=config_map("b"))
            assert refused.status_code == NOT_ALLOWED
        assert cluster.storage.store.revision == before


@pytest.mark.parametrize("path", [f"{WATCHED}/a/status", "/api/v1/watch/namespaces/default/bindings"])
async def test_watch_of_subresource_or_unwatchable_resource_is_not_found(path: str) -> None:
    async with served() as (_, client):
        assert (await client.get(path)).status_code == 404


async def test_custom_resource_below_watch_is_watched_with_any_method() -> None:
    async with served() as (cluster, client):
        await defined(cluster, client)
        await client.post(BASE, json=widget("a", n=1))
        await passed(cluster)
        watched = BASE.replace("/namespaces", "/watch/namespaces")
        cluster.kernel.set_goal(NEVER_US)
        cluster.kernel.set_rate(60)
        seen = await client.request("DELETE", f"{watched}/a?timeoutSeconds=1")
        assert json.loads(seen.text.splitlines()[0])["type"] == "ADDED"
        assert (await client.get(f"{BASE}/a")).status_code == 200


# --- subresources ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("path", "kind", "version"),
    [
        ("/api/v1/nodes/none/status", "Node", "v1"),
        ("/api/v1/namespaces/none/status", "Namespace", "v1"),
        (
            "/apis/networking.k8s.io/v1/namespaces/default/ingresses/none/status",
            "Ingress",
            "networking.k8s.io/v1",
        ),
        ("/api/v1/namespaces/default/pods/none/ephemeralcontainers", "Pod", "v1"),
        (f"{BASE}/none/status", "Widget", f"{GROUP}/v1"),
    ],
)
async def test_apply_to_subresource_of_absent_object_is_not_found(path: str, kind: str, version: str) -> None:
    async with served() as (cluster, client):
        if kind == "Widget":
            await defined(cluster, client, subresources={"status": {}})
        body = {"apiVersion": version, "kind": kind, "metadata": {"name": "none"}}
        for media in (N.media_apply_patch, N.media_merge_patch):
            query = "?fieldManager=m" if media == N.media_apply_patch else ""
            refused = await client.patch(f"{path}{query}", json=body, headers={"Content-Type": media})
            assert (refused.status_code, refused.json()["reason"]) == (404, "NotFound")
        assert (await client.get(path.rpartition("/")[0])).status_code == 404


@pytest.mark.parametrize("method", ["PUT", "PATCH"])
async def test_status_of_absent_service_creates_it_as_its_kind_allows_creates_by_put(method: str) -> None:
    path = "/api/v1/namespaces/default/services/s"
    headers = {"Content-Type": N.media_apply_patch if method == "PATCH" else N.media_json}
    head = {"apiVersion": "v1", "kind": "Service", "metadata": {"name": "s"}}
    async with served() as (_, client):
        for spec, code in ({}, 422), ({"ports": [{"port": 80}]}, 201):
            body = json.dumps({**head, "spec": spec}).encode()
            made = await client.request(
                method, f"{path}/status?fieldManager=m", content=body, headers=headers
            )
            assert made.status_code == code
        assert (await client.get(path)).json()["spec"]["clusterIP"]


@pytest.mark.parametrize("subresource", ["", "/status"])
async def test_put_of_custom_resource_without_resource_version_is_refused(subresource: str) -> None:
    async with served() as (cluster, client):
        await defined(cluster, client, subresources={"status": {}})
        await client.post(BASE, json=widget("a", n=1))
        refused = await client.put(f"{BASE}/a{subresource}", json=widget("a", n=2))
        assert refused.status_code == 422
        assert "metadata.resourceVersion: Invalid value: 0x0: must be specified" in refused.json()["message"]


async def test_put_of_budget_status_without_resource_version_is_refused() -> None:
    budgets = "/apis/policy/v1/namespaces/default/poddisruptionbudgets"
    async with served() as (_, client):
        await client.post(budgets, json={"metadata": {"name": "b"}, "spec": {"minAvailable": 1}})
        refused = await client.put(f"{budgets}/b/status", json={"metadata": {"name": "b"}})
        assert refused.status_code == 422


# --- documents ------------------------------------------------------------------------------------


async def test_health_checks_are_those_of_parts_that_exist() -> None:
    async with served() as (_, client):
        for path in ("healthz", "livez", "readyz"):
            text = (await client.get(f"/{path}?verbose")).text
            assert text.splitlines()[-1] == f"{path} check passed"
            for check in ("poststarthook/rbac/bootstrap-roles", "autoregister-completion"):
                assert f"[+]{check} ok" in text
                assert (await client.get(f"/{path}/{check}?verbose")).text == "ok"
            assert (await client.get(f"/{path}/poststarthook/nope")).status_code == 404
    off = ComponentPlan(flags={"enable-priority-and-fairness": "false"})
    async with served(plan=ClusterPlan(naming="kubernetes", nodes=(), api_server=off)) as (_, client):
        assert "poststarthook/max-in-flight-filter" in (await client.get("/readyz?verbose")).text


async def test_server_without_its_storage_is_alive_for_the_grace_period_only() -> None:
    plan = ClusterPlan(
        naming="kubernetes", nodes=(), api_server=ComponentPlan(flags={"livez-grace-period": "20s"})
    )
    async with served(plan=plan) as (cluster, client):
        cluster.supervisor["apiserver-0"].crash()
        cluster.supervisor["storage"].crash()
        cluster.supervisor["apiserver-0"].start()
        hook = "poststarthook/crd-informer-synced"
        assert (await client.get(f"/livez/{hook}")).text == "ok"
        assert (await client.get(f"/readyz/{hook}")).status_code == 500
        assert "[-]informer-sync failed" in (await client.get("/readyz?verbose")).text
        cluster.kernel.set_rate(inf)
        await cluster.run_for("21s")
        assert (await client.get(f"/livez/{hook}")).status_code == 500


async def test_openapi_documents_have_entity_tags_and_urls_that_never_change() -> None:
    async with served() as (_, client):
        index = (await client.get("/openapi/v3")).json()["paths"]
        assert {"logs", "openid/v1/jwks", ".well-known/openid-configuration"} <= index.keys()
        assert not any("apiregistration" in path for path in index)
        url = index["apis/coordination.k8s.io/v1"]["serverRelativeURL"]
        found = await client.get(url)
        assert found.headers["cache-control"] == "public, immutable"
        assert (found.headers["vary"], found.headers["etag"]) == ("Accept", f'"{url.partition("=")[2]}"')
        again = await client.get(url, headers={"If-None-Match": found.headers["etag"]})
        assert (again.status_code, again.content) == (304, b"")
        moved = await client.get(f"{url[:-8]}00000000")
        assert (moved.status_code, moved.headers["location"]) == (301, url)
        plain = await client.get(url.partition("?")[0])
        assert (plain.content, plain.headers["cache-control"]) == (found.content, "no-cache, private")
        binary = await client.get(url, headers={"Accept": MEDIA_V3})
        assert binary.headers["content-type"] == "application/octet-stream"
        assert binary.content.startswith(b"\x0a\x053.0.0") and len(binary.content) < len(found.content)
        older = await client.get("/openapi/v2")
        assert older.headers["content-encoding"] == "gzip"
        assert older.json()["definitions"]["io.k8s.api.core.v1.Taint"]["properties"]["effect"]["enum"]


async def test_large_answer_is_compressed_for_a_client_that_accepts_it() -> None:
    async with served() as (_, client):
        await client.post(MAPS, json={"metadata": {"name": "large"}, "data": {"k": "v" * 200_000}})
        large = await client.get(f"{MAPS}/large")
        assert (large.headers["content-encoding"], large.headers["vary"]) == ("gzip", "Accept-Encoding")
        assert int(large.headers["content-length"]) < 10_000 and len(large.json()["data"]["k"]) == 200_000
        plain = await client.get(f"{MAPS}/large", headers={"Accept-Encoding": "br, identity"})
        assert "content-encoding" not in plain.headers and plain.json() == large.json()
        small = await client.get(f"{MAPS}/kube-root-ca.crt")
        assert "content-encoding" not in small.headers


async def test_version_describes_this_program_in_all_fields() -> None:
    async with served() as (_, client):
        found = (await client.get("/version")).json()
        assert (found["major"], found["minor"], found["gitTreeState"]) == ("1", "25", "archive")
        assert re.fullmatch("[0-9a-f]{40}", found["gitCommit"])
        assert parse_time(found["buildDate"]) > 0
        assert found["goVersion"].startswith("python3.") and found["compiler"]
        assert re.fullmatch("[a-z]+/[a-z0-9_]+", found["platform"])


# --- options of deletes ---------------------------------------------------------------------------

POLICY = 'propagationPolicy: Unsupported value: "{}": supported values: "Foreground", "Background", "Orphan", "nil"'
BOTH = 'propagationPolicy: Invalid value: "{}": orphanDependents and deletionPropagation cannot be both set'
DRY_RUN = 'dryRun: Unsupported value: []string{"Some", "All"}: supported values: "All"'


@pytest.mark.parametrize(
    ("query", "body", "errors"),
    [
        ("?propagationPolicy=", None, [POLICY.format("")]),
        ("", {"propagationPolicy": ""}, [POLICY.format("")]),
        ("", {"dryRun": ["Some", "All"]}, [DRY_RUN]),
        ("?dryRun=Some&dryRun=All", None, [DRY_RUN]),
        ("?propagationPolicy=Orphan&orphanDependents=true", None, [BOTH.format("Orphan")]),
        (
            "",
            {"propagationPolicy": "X", "orphanDependents": False, "dryRun": ["Some", "All"]},
            [BOTH.format("X"), POLICY.format("X"), DRY_RUN],
        ),
    ],
)
async def test_wrong_delete_options_are_all_reported_and_nothing_is_deleted(
    query: str, body: dict[str, Any] | None, errors: list[str]
) -> None:
    async with served() as (_, client):
        await client.post(MAPS, json=config_map("a"))
        for path in (f"{MAPS}/a", MAPS):
            refused = await client.request("DELETE", f"{path}{query}", json=body)
            assert refused.status_code == 422
            told = errors[0] if len(errors) == 1 else f"[{', '.join(errors)}]"
            assert refused.json()["message"] == f'DeleteOptions.meta.k8s.io "" is invalid: {told}'
        assert (await client.get(f"{MAPS}/a")).status_code == 200


async def test_delete_with_a_body_ignores_the_query() -> None:
    async with served() as (_, client):
        await client.post(MAPS, json=config_map("a"))
        tried = await client.request("DELETE", f"{MAPS}/a?dryRun=Some", json={"dryRun": ["All"]})
        assert tried.status_code == 200
        assert (await client.get(f"{MAPS}/a")).status_code == 200
        gone = await client.request("DELETE", f"{MAPS}/a?dryRun=All&gracePeriodSeconds=x", content=b"{}")
        assert gone.status_code == 200
        assert (await client.get(f"{MAPS}/a")).status_code == 404


@pytest.mark.parametrize("options", [{"propagationPolicy": ""}, {"dryRun": ["Some", "All"]}])
async def test_wrong_delete_options_of_an_eviction_are_refused(options: dict[str, Any]) -> None:
    pod = {"metadata": {"name": "p"}, "spec": {"containers": [{"name": "c", "image": "i"}]}}
    async with served() as (_, client):
        pods = MAPS.replace("configmaps", "pods")
        await client.post(
            MAPS.replace("configmaps", "serviceaccounts"), json={"metadata": {"name": "default"}}
        )
        assert (await client.post(pods, json=pod)).status_code == 201
        eviction = {"metadata": {"name": "p"}, "deleteOptions": options}
        refused = await client.post(f"{pods}/p/eviction", json=eviction)
        assert refused.status_code == 422
        assert (await client.get(f"{pods}/p")).status_code == 200


# --- what a served cluster is ---------------------------------------------------------------------


async def test_served_cluster_publishes_its_own_certificate_authority(tmp_path: Path) -> None:
    config = tmp_path / "config"
    async with Cluster(naming="kubernetes") as cluster:
        await cluster.run_for("20s")  # the controllers run already
        async with serve.served(cluster, config):
            await cluster.run_for("5s")
            known = yaml.safe_load(config.read_text())["clusters"][0]["cluster"]["certificate-authority-data"]
            for namespace in ("default", N.system_namespace):
                published = cluster.get("configmaps", N.config_map_root_ca, namespace)
                assert published["data"] == {"ca.crt": b64decode(known).decode()}


async def test_serve_notes_jobs_that_never_end_once_for_equal_containers(
    capsys: pytest.CaptureFixture[str],
) -> None:
    plan = Plan("s", "", 0, 0, ClusterPlan(naming="kubernetes", nodes=()), (), (), ())
    async with served() as (cluster, client):
        tell_of_endless_jobs(cluster, plan)
        jobs = MAPS.replace("configmaps", "jobs").replace("/api/v1", "/apis/batch/v1")
        for name, command in (("a", ["sleep", "5"]), ("b", ["java", "x"]), ("c", ["java", "x"])):
            pod = {"containers": [{"name": "p", "image": "i", "command": command}], "restartPolicy": "Never"}
            job = {"metadata": {"name": name}, "spec": {"template": {"spec": pod}}}
            assert (await client.post(jobs, json=job)).status_code == 201
    said = capsys.readouterr().err
    assert said.startswith("orrery: Job b: the program of container p has no known end")
    assert said.count("orrery:") == 1


async def test_field_that_is_unknown_may_nest_as_deep_as_upstream_reads() -> None:
    async with served() as (_, client):
        deep = b"[" * 9000 + b"]" * 9000
        made = await client.post(
            MAPS,
            content=b'{"metadata":{"name":"deep"},"frob":%b}' % deep,
            headers={"Content-Type": "application/json"},
        )
        assert made.status_code == 201 and "unknown field" in made.headers["warning"]
        broken = b'{"metadata":{"name":"x"},"frob":%b}' % deep.replace(b"[]", b"[,]")
        refused = await client.post(MAPS, content=broken, headers={"Content-Type": "application/json"})
        assert refused.status_code == 400
        patch = {"Content-Type": N.media_merge_patch}
        changed = await client.patch(
            f"{MAPS}/deep", content=b'{"data":{"k":"v"},"frob":%b}' % deep, headers=patch
        )
        assert changed.json()["data"] == {"k": "v"}
        wrong = await client.post(
            MAPS,
            content=b'{"metadata":{"name":"y"},"data":{"k":%b}}' % deep,
            headers={"Content-Type": "application/json"},
        )
        assert wrong.status_code == 400 and "cannot unmarshal array" in wrong.json()["message"]


def nested(levels: int, leaf: bytes = b"1") -> bytes:
    return b'{"a":' * levels + leaf + b"}" * levels


async def test_object_of_any_content_may_nest_as_deep_as_upstream_reads() -> None:
    json_type = {"Content-Type": "application/json"}
    apply_type = {"Content-Type": N.media_apply_patch}
    async with served() as (_, client):
        group = f"{N.group('apps')}/v1"
        revisions = f"/apis/{group}/namespaces/default/controllerrevisions"
        head = b'{"metadata":{"name":"deep"},"revision":1,"data":%b}'
        for levels, code in ((9_999, 201), (10_000, 400)):
            body = head % nested(levels)
            made = await client.post(revisions, content=body, headers=json_type)
            assert made.status_code == code
        assert made.json()["message"].count("invalid character '{' exceeded max depth") == 1
        assert (await client.get(f"{revisions}/deep")).content.count(b'{"a":') == 9_999
        for kind, words in (
            (N.media_merge_patch, "error decoding patch: "),
            (N.media_strategic_patch, ""),
        ):
            patch = await client.patch(
                f"{revisions}/deep", content=b'{"data":%b}' % nested(10_000), headers={"Content-Type": kind}
            )
            assert patch.json()["message"] == f"{words}invalid character '{{' exceeded max depth"
        text = b'{"apiVersion":"%b","kind":"ControllerRevision",' % group.encode() + head[1:]
        body = text.replace(b"deep", b"other") % nested(9_999)
        url = f"{revisions}/other?fieldManager=m"
        assert (await client.patch(url, content=body, headers=apply_type)).status_code == 201


async def test_options_are_checked_in_the_order_of_each_verb() -> None:
    """Of an update before its media type, of a create and of what selects for deletion, after it."""
    picture = {"Content-Type": "image/webp"}
    async with served() as (_, client):

        async def code(method: str, query: str, name: str = "", body: bytes = b"{}", **headers: str) -> int:
            url = f"{MAPS}{name}?{query}"
            answer = await client.request(method, url, content=body, headers={**picture, **headers})
            return int(answer.status_code)

        assert await code("PUT", "dryRun=x", "/n") == 422
        assert await code("POST", "dryRun=x") == 415
        assert (await client.patch(f"{MAPS}/n?dryRun=x")).status_code == 406
        odd = await client.get(f"{MAPS}?resourceVersionMatch=%08%C2%8D%C2%B2")
        assert '"\\b\\u008d\u00b2"' in odd.json()["message"]
        yaml = {"Content-Type": "application/yaml"}
        assert await code("POST", "dryRun=x", body=b"a: [", **yaml) == 422
        assert await code("DELETE", "labelSelector=%25") == 400
        assert await code("DELETE", "limit=1") == 415
        mismatch = "resourceVersionMatch=x"
        assert await code("GET", mismatch, body=b"") == 422
        for unreadable in ("labelSelector=%25", "fieldSelector=x", "timeoutSeconds=null", "limit=x"):
            assert await code("GET", f"{unreadable}&{mismatch}", body=b"") == 400
        json_type = {"Content-Type": "application/json"}
        orphan = b'{"orphanDependents":false,"propagationPolicy":""}'
        assert await code("DELETE", "resourceVersion=x", body=orphan, **json_type) == 422
        merge = {"Content-Type": N.media_merge_patch}
        assert await code("PATCH", "", "/absent", body=b"{", **merge) == 404
        apply = {"Content-Type": N.media_apply_patch}
        group = "/apis/apps/v1/namespaces/default/deployments/absent"
        for url, wanted in ((group, 400), (f"{group}/status", 404), (f"{group}/scale", 404)):
            answer = await client.patch(f"{url}?fieldManager=m", content=b"{}", headers=apply)
            assert answer.status_code == wanted
        for version in ("autoscaling/v1", "autoscaling/v2"):  # converted or not, the cache answers
            url = f"/apis/{version}/namespaces/default/horizontalpodautoscalers?resourceVersion=x"
            assert (await client.get(url)).status_code == 500
        assert (await client.post(MAPS, json=config_map("there"))).status_code == 201
        assert await code("PATCH", "", "/there", body=b"{", **merge) == 400


async def test_system_priority_class_is_deleted_only_with_its_collection() -> None:
    async with served() as (_, client):
        classes = "/apis/scheduling.k8s.io/v1/priorityclasses"
        refused = await client.delete(f"{classes}/system-node-critical")
        assert refused.json()["message"].endswith("this is a system priority class and cannot be deleted")
        assert (await client.delete(classes)).status_code == 200
        assert (await client.get(classes)).json()["items"] == []
        assert (
            await client.delete(f"{classes}/system-node-critical")
        ).status_code == 403  # though it is gone


async def test_documents_of_the_api_are_refused_to_a_body_of_another_type() -> None:
    async with served() as (_, client):

        async def code(path: str, content: str) -> int:
            return int((await client.get(path, headers={"Content-Type": content})).status_code)

        for path in ("/api", "/api/v1", "/version"):
            assert await code(path, "text/plain") == await code(path, "APPLICATION/JSON") == 406
            assert await code(path, "text/plain, application/json;charset=x") == 200
        assert (await code("/api", "application/yaml"), await code("/version", "application/yaml")) == (
            200,
            406,
        )
        assert await code("/apis", "text/plain") == 200


async def test_logs_are_an_empty_folder_for_clients_that_accept_any_form() -> None:
    async with served() as (_, client):
        assert (await client.get("/logs", headers={"Accept": "application/json"})).status_code == 406
        moved = await client.get("/logs")
        assert (moved.status_code, moved.headers["location"]) == (301, "logs/")
        assert (await client.get("/logs/")).text == "<pre>\n</pre>\n"
        assert (await client.get("/logs/nope")).status_code == 404
        assert (await client.post("/logs/")).status_code == 405


async def test_profile_names_the_functions_that_ran_and_can_be_switched_off() -> None:
    async with served() as (_, client):
        assert "profile" in (await client.get("/debug/pprof/")).text
        assert (await client.get("/debug/pprof/heap")).status_code == 404
        found = await client.get("/debug/pprof/profile?seconds=1")
        assert found.headers["content-disposition"] == 'attachment; filename="profile"'
        text = gzip.decompress(found.content)
        assert b"nanoseconds" in text and b"trio/_core/_run.py" in text
    off = ComponentPlan(flags={"profiling": "false", "enable-logs-handler": "false"})
    async with served(plan=ClusterPlan(naming="kubernetes", nodes=(), api_server=off)) as (_, client):
        for path in ("/debug/pprof/", "/debug/pprof/profile", "/logs/"):
            assert (await client.get(path)).text == "404 page not found\n"


# --- metrics --------------------------------------------------------------------------------------

FAMILIES = """
    apiserver_request_total apiserver_request_duration_seconds apiserver_request_slo_duration_seconds
    apiserver_response_sizes apiserver_longrunning_requests apiserver_current_inflight_requests
    apiserver_storage_objects apiserver_watch_events_total
    apiserver_watch_events_sizes authentication_attempts authentication_duration_seconds
    authenticated_user_requests etcd_request_duration_seconds rest_client_requests_total
    workqueue_depth workqueue_adds_total workqueue_queue_duration_seconds
    workqueue_work_duration_seconds leader_election_master_status kubernetes_build_info
    apiserver_flowcontrol_request_concurrency_limit process_cpu_seconds_total python_info
"""


async def test_components_are_counted_from_the_first_reader_on() -> None:
    async with served(nodes=1) as (cluster, client):
        assert cluster.kernel.meters is None
        await client.get("/metrics")
        cluster.kernel.set_rate(inf)
        await cluster.run_for("8s")
        async with await asked(client, "GET", f"{MAPS}?watch=1&resourceVersion=0") as watch:
            while b"ADDED" not in await watch.receive_some():
                pass
            await client.get(MAPS)
            lines = (await client.get("/metrics")).text.splitlines()
        named = {line.split()[2] for line in lines if line.startswith("# TYPE")}
        assert [name for name in FAMILIES.split() if name not in named] == []

        def value(begin: str) -> float:
            return sum(float(line.rpartition(" ")[2]) for line in lines if line.startswith(begin))

        assert value('apiserver_request_total{code="200",component="apiserver",dry_run="",group="coordi') > 2
        assert value('rest_client_requests_total{code="200",host="apiserver-0",method="PUT"}') > 2
        assert value('leader_election_master_status{name="kube-scheduler"}') == 1
        watches = 'apiserver_longrunning_requests{component="apiserver",group="",resource="configmaps"'
        assert [value(f'{watches},scope="{scope}"') for scope in ("cluster", "namespace")] == [1, 1]
        assert value("apiserver_longrunning_requests{") > 10
        assert value("workqueue_adds_total{") > 0
        assert value('etcd_request_duration_seconds_count{operation="update",type="*coordination.Lease"}') > 2


# --- transport ------------------------------------------------------------------------------------


async def test_client_without_tls_gets_an_answer_that_it_can_read() -> None:
    authority = Authority("ca")
    context = server_context(authority.server(("127.0.0.1",)), authority.pem)
    async with served(context=context) as (_, client):
        assert client.base_url.port is not None
        stream = await trio.open_tcp_stream("127.0.0.1", client.base_url.port)
        async with stream:
            await stream.send_all(b"GET /api HTTP/1.1\r\nHost: x\r\n\r\n")
            found = b"".join([part async for part in stream])
        assert found.startswith(b"HTTP/1.0 400 Bad Request\r\n")
        assert found.endswith(b"Client sent an HTTP request to an HTTPS server.\n")
        assert (await client.get(MAPS)).status_code == 200


async def test_request_ends_at_its_own_time_out() -> None:
    async with served() as (cluster, client):
        cluster.supervisor["storage"].crash()
        answers: list[Any] = []

        async def ask() -> None:
            answers.append(await client.post(f"{MAPS}?timeout=3s", json=config_map("a")))

        async with trio.open_nursery() as nursery:
            nursery.start_soon(ask)
            while not cluster.api_servers["apiserver-0"].traffic.in_flight:
                await trio.testing.wait_all_tasks_blocked(0.005)
            cluster.kernel.set_rate(inf)
            await cluster.run_for("4s")
        (answer,) = answers
        assert (answer.status_code, answer.json()["reason"]) == (504, "Timeout")


async def test_watch_takes_no_notice_of_a_time_out_of_requests() -> None:
    async with served() as (_, client):
        watch = await asked(client, "GET", f"{MAPS}?watch=1&timeout=abc")
        async with watch:
            assert (await watch.receive_some()).startswith(b"HTTP/1.1 200 OK")


async def test_kinds_that_are_only_created_have_no_table() -> None:
    table = {"Accept": "application/json;as=Table;v=v1;g=meta.k8s.io"}
    async with served() as (_, client):
        review = {"spec": {"resourceAttributes": {"verb": "get", "resource": "pods"}}}
        path = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"
        refused = await client.post(path, json=review, headers=table)
        assert (refused.status_code, refused.json()["reason"]) == (406, "NotAcceptable")
        both = {"Accept": f"{table['Accept']}, application/json"}
        assert (await client.post(path, json=review, headers=both)).status_code == 201


async def test_answers_that_a_browser_could_misread_forbid_it_to_guess() -> None:
    async with served() as (_, client):
        anonymous = {"Authorization": ""}
        for path, headers in (("/nope", {}), ("/livez", {}), (MAPS, anonymous)):
            found = await client.get(path, headers=headers)
            assert found.headers["x-content-type-options"] == "nosniff"
        assert "x-content-type-options" not in (await client.get(MAPS)).headers
