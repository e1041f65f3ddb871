"""Hostile requests at a served cluster, and what a bystander feels of them.

python -m tests.bench.hostile [REQUESTS]

Requests of mutated JSON, YAML and protobuf bodies, paths, queries and headers, some of the largest
size, are sent on four connections; a bystander gets one namespace all the while.  Exit status 1 if
the server answers 500 where upstream would not, logs an error, keeps descriptors or memory, or does
a piece of work of more than 150 ms of processor time, during which the bystander waits
(`tests.bench.pieces`).  Its waits by the clock are printed only.
"""

from __future__ import annotations

import json
import sys
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from http import client as http_client
from http.client import HTTPException, HTTPSConnection
from random import Random
from time import perf_counter, sleep
from typing import Any

from sim.api.protobuf.wire import part, varint
from sim.ident import NAMES
from sim.statistics import quantile
from tests.bench.heavy import MARKS, longest_of, noted
from tests.bench.serving import Server
from tests.bench.timing import machine

N = NAMES["kubernetes"]
REQUESTS, CLIENTS, WARM = 20_000, 4, 400
# As many warnings as a body has unknown fields; the module's own bound is 100 headers.
http_client._MAXHEADERS = 1000  # type: ignore[attr-defined]
PAUSE_S = 0.01  # of the bystander, between two requests
PIECE_MS_MAX, MEMORY_MIB_MAX = 150.0, 60.0
LARGE_EVERY = 200  # requests between two of the largest size
BODY_MAX = 3 << 20
# What upstream's own answers of 500 say; each of another text is a defect.
GOOD_500 = (
    b"without impersonating a user",
    b"unknown patch type: ",  # strategic merge patches
    b"does not contain declared merge key: ",
    b"list element types are not identical: ",
    b"merging lists cannot yet be specified in the patch",
    b"cannot merge lists without merge key for ",
    b"expected a []interface {}, but received a ",
    b"failed to create typed ",  # an apply
    b"resourceVersion should not be set on objects to be created",
    b"resourceVersion: Invalid value: ",
    b"invalid resource version: ",
    b"required revision is a future revision",
    b"etcdserver: request is too large",
    b"couldn't get version/kind; json parse error: ",  # DeleteOptions
)


@dataclass(slots=True)
class Attack:
    """One request."""

    method: str
    path: str
    body: bytes = b""
    headers: dict[str, str] = field(default_factory=dict)


@dataclass(slots=True)
class Found:
    """The results of the requests.  lost: connections that ended without a reply; bad: replies of
    500, in words.
    """

    codes: Counter[int] = field(default_factory=Counter)
    lost: list[str] = field(default_factory=list)
    bad: list[str] = field(default_factory=list)


# --- what is sent ---------------------------------------------------------------------------------

CONTAINER = {
    "name": "c",
    "image": "i",
    "ports": [{"containerPort": 80, "protocol": "TCP"}],
    "env": [{"name": "A", "value": "b"}],
    "resources": {"limits": {"cpu": "1", "memory": "1Gi", "hugepages-2Mi": "4Mi"}},
    "readinessProbe": {"httpGet": {"path": "/", "port": "web"}, "periodSeconds": 5},
}
METADATA = {"name": "x", "labels": {"app": "web"}, "annotations": {"a/b": "c"}, "finalizers": ["a.b/c"]}
POD = {"metadata": METADATA, "spec": {"containers": [CONTAINER], "nodeSelector": {"a": "b"}}}
TEMPLATE = {"metadata": {"labels": {"app": "web"}}, "spec": POD["spec"]}
CORE = "/api/v1/namespaces/default"
OBJECTS: dict[str, Any] = {
    f"{CORE}/pods": POD,
    f"{CORE}/configmaps": {"metadata": METADATA, "data": {"k": "v"}, "binaryData": {"b": "AA=="}},
    f"{CORE}/services": {"metadata": METADATA, "spec": {"ports": [{"port": 80}], "selector": {"app": "web"}}},
    f"{CORE}/resourcequotas": {"metadata": METADATA, "spec": {"hard": {"pods": "9", "requests.cpu": "1"}}},
    f"{CORE}/limitranges": {
        "metadata": METADATA,
        "spec": {"limits": [{"type": "Container", "max": {"cpu": "2"}, "default": {"cpu": "1"}}]},
    },
    f"{CORE}/events": {
        "metadata": METADATA,
        "involvedObject": {"kind": "Pod", "namespace": "default", "name": "x"},
        "firstTimestamp": "2020-01-01T00:00:00Z",
    },
    "/api/v1/nodes": {"metadata": METADATA, "spec": {"taints": [{"key": "a", "effect": "NoSchedule"}]}},
    "/apis/apps/v1/namespaces/default/deployments": {
        "metadata": METADATA,
        "spec": {
            "replicas": 0,
            "selector": {"matchLabels": {"app": "web"}},
            "template": TEMPLATE,
            "strategy": {"rollingUpdate": {"maxSurge": "25%"}},
        },
    },
    "/apis/batch/v1/namespaces/default/cronjobs": {
        "metadata": METADATA,
        "spec": {"schedule": "0 0 * * *", "jobTemplate": {"spec": {"template": TEMPLATE}}},
    },
    "/apis/policy/v1/namespaces/default/poddisruptionbudgets": {
        "metadata": METADATA,
        "spec": {
            "minAvailable": "50%",
            "selector": {"matchExpressions": [{"key": "a", "operator": "Exists"}]},
        },
    },
    "/apis/coordination.k8s.io/v1/namespaces/default/leases": {
        "metadata": METADATA,
        "spec": {"renewTime": "2020-01-01T00:00:00.000000Z", "leaseDurationSeconds": 15},
    },
    "/apis/autoscaling/v2/namespaces/default/horizontalpodautoscalers": {
        "metadata": METADATA,
        "spec": {"scaleTargetRef": {"kind": "Deployment", "name": "x"}, "maxReplicas": 3},
    },
    "/apis/apiextensions.k8s.io/v1/customresourcedefinitions": {
        "metadata": {"name": "ts.a.io"},
        "spec": {
            "group": "a.io",
            "names": {"plural": "ts", "kind": "T"},
            "scope": "Namespaced",
            "versions": [
                {
                    "name": "v1",
                    "served": True,
                    "storage": True,
                    "schema": {"openAPIV3Schema": {"type": "object"}},
                }
            ],
        },
    },
}
NASTY: list[Any] = [
    None, True, 0, -1, 1.5, 2**31, 2**63, 2**64, -(2**70), 1e300, "", " ", "\0", "é", "\u2028", "\ud800", "a" * 300,
    "..", "%", "*", "hugepages-", "hugepages-huge", "hugepages-0", "1e999999999", "-1Ki", "9" * 400, "0001-01-01T00:00:00Z",
    "99999-01-01T00:00:00Z", "2020-13-45T99:99:99Z", [], {}, [[]], [None], {"": None}, {"a": {"a": {}}}, "{{", "$(A)", "0 0 31 2 *",
    "* * * *", "100%", "-5%", "999999999999%", "::1", "256.1.1.1", "10.0.0.0/99", "(", "a(", "[a", "(a+)+$",
]  # fmt: skip


def spoilt(random: Random, value: Any, depth: int = 0) -> Any:
    """A value with one or a few of its parts replaced, removed, repeated or renamed."""
    if not isinstance(value, dict | list) or not value or (depth and random.random() < 0.15):
        return random.choice(NASTY)
    if isinstance(value, list):
        at = random.randrange(len(value))
        below = [*value]
        below[at : at + 1] = [spoilt(random, value[at], depth + 1)] * random.choice((1, 1, 1, 2))
        return below
    key = random.choice([*value])
    below = {**value}
    match random.randrange(8):
        case 0:
            del below[key]
        case 1:
            below[str(random.choice(NASTY))] = value[key]
        case _:
            below[key] = spoilt(random, value[key], depth + 1)
    return below


def torn(random: Random, text: bytes) -> bytes:
    """Bytes with some flipped, cut out, cut off or doubled."""
    data = bytearray(text)
    for _ in range(random.randrange(1, 4)):
        at = random.randrange(len(data) + 1)
        match random.randrange(4):
            case 0:
                data[at : at + 1] = bytes([random.randrange(256)])
            case 1:
                del data[at : at + random.randrange(9)]
            case 2:
                del data[at:]
            case _:
                data[at:at] = data[at : at + 20]
    return bytes(data)


def block(value: Any, indent: str = "\n") -> str:
    """A value as YAML of blocks, its scalars as JSON has them."""
    if isinstance(value, dict) and value:
        return "".join(
            [f"{indent}{json.dumps(k)}: {block(below, indent + ' ')}" for k, below in value.items()]
        )
    if isinstance(value, list) and value:
        return "".join([f"{indent}- {block(below, indent + ' ')}" for below in value])
    return json.dumps(value)


def message(random: Random, depth: int = 0) -> bytes:
    """A protobuf message of low field numbers."""
    made = b""
    for _ in range(random.randrange(1, 6)):
        number = random.randrange(1, 20)
        match random.randrange(4):
            case 0:
                made += varint(number << 3) + varint(random.choice((0, 1, 2**31, 2**63, 2**64 - 1)))
            case 1:
                made += part(number, random.randbytes(random.randrange(12)))
            case _ if depth < 6:
                made += part(number, message(random, depth + 1))
            case _:
                made += part(number, b'{"a":1}')
    return made


def protobuf(random: Random, api_version: str, kind: str) -> bytes:
    inner = message(random)
    if random.random() < 0.1:
        for _ in range(900):
            inner = part(random.choice((1, 2)), inner)
    return b"k8s\0" + part(1, part(1, api_version.encode()) + part(2, kind.encode())) + part(2, inner)


KINDS = {"pods": "Pod", "configmaps": "ConfigMap", "services": "Service", "nodes": "Node", "leases": "Lease"}
PATHS = (
    "/version", "/", "/api", "/apis", "/apis/apps", "/apis/apps/v1", "/api/v1", "/healthz", "/readyz/ping", "/metrics",
    "/openapi/v3", f"{CORE}/pods/x/log", f"{CORE}/pods/x/exec", f"{CORE}/pods/x/status", f"{CORE}/services/x/proxy/a",
    "/api/v1/watch/pods", "/apis/apps/v1/namespaces/default/deployments/x/scale", "/apis/a.io/v1/namespaces/default/ts/x",
    "/api/v1/namespaces/default/serviceaccounts/default/token", "/index.html", "/logs", "/api/v1/componentstatuses",
)  # fmt: skip
QUERIES = (
    "limit=-1", "limit=99999999999999999999", "continue=AAAA", "resourceVersion=x", "resourceVersion=-1", "timeout=1h1",
    "fieldSelector=a%3D%3Db%2C", "labelSelector=a+in+(b", "labelSelector=%00", "pretty=1", "dryRun=All", "dryRun=x",
    "fieldManager=%ff", "fieldValidation=Strict", "force=1", "gracePeriodSeconds=-9", "propagationPolicy=x", "%", ";", "&&=&",
    "watch=1&timeoutSeconds=1", "watch=1&resourceVersion=99999999&timeoutSeconds=1", "timeoutSeconds=x", "tailLines=-1",
    "resourceVersionMatch=Exact", "includeObject=x", "allowWatchBookmarks=x", "orphanDependents=x",
)  # fmt: skip
ACCEPTS = (
    "*/*", "application/yaml", N.media_protobuf, f"{N.media_protobuf}, */*", "text/html", ",,;q=x", "a/b;q=nan",
    "application/json;as=Table;v=v1;g=meta.k8s.io", "application/json;as=PartialObjectMetadata;v=v1;g=meta.k8s.io",
    f"{N.media_protobuf};as=PartialObjectMetadataList;v=v1;g=meta.k8s.io", "application/json;stream=watch", ";" * 200,
    f"{N.media_protobuf};as=Table;v=v1;g=meta.k8s.io,application/json", "application/yaml;as=Table;v=v1;g=meta.k8s.io",
)  # fmt: skip
HEADERS = (
    ("Content-Type", "x" * 500), ("Content-Type", "application/json, application/yaml"), ("Content-Type", "\xff"),
    ("Impersonate-User", "u"), ("Impersonate-Group", "g"), ("Impersonate-Extra-%", "e"), ("Impersonate-User", "system:serviceaccount:a"),
    ("Authorization", "Bearer a.b.c"), ("Authorization", "Basic"), ("Authorization", "Bearer e30.e30.e30"), ("User-Agent", ""),
    ("User-Agent", "\xe9" * 200), ("If-Match", "x"), ("Range", "bytes=0-1"), ("X-Forwarded-For", "a"), ("Cookie", "a=b;;=="),
)  # fmt: skip


def of_json(random: Random) -> Attack:
    path, obj = random.choice([*OBJECTS.items()])
    text = json.dumps(spoilt(random, obj)).encode()
    if random.random() < 0.3:
        text = torn(random, text)
    method = random.choice(("POST", "POST", "POST", "PUT"))
    return Attack(
        method, path if method == "POST" else f"{path}/x", text, {"Content-Type": "application/json"}
    )


def of_patch(random: Random) -> Attack:
    path, obj = random.choice([*OBJECTS.items()])
    media = random.choice(
        (N.media_json_patch, N.media_merge_patch, N.media_strategic_patch, N.media_apply_patch)
    )
    body = spoilt(random, obj)
    if media == N.media_json_patch:
        where = random.choice(("", "/", "/metadata", "/spec/-", "/metadata/labels/a~2", "/data/k", "x"))
        operation = random.choice(("add", "remove", "replace", "move", "copy", "test", ""))
        body = [
            {
                "op": operation,
                "path": where,
                "from": random.choice(("/metadata", "")),
                "value": random.choice(NASTY),
            }
        ]
    elif random.random() < 0.3 and isinstance(body, dict):
        body["$patch"] = random.choice(("replace", "delete", "x", 1))
    query = f"?{random.choice(QUERIES)}" if random.random() < 0.3 else "?fieldManager=m"
    return Attack("PATCH", f"{path}/x{query}", json.dumps(body).encode(), {"Content-Type": media})


def of_yaml(random: Random) -> Attack:
    path, obj = random.choice([*OBJECTS.items()])
    text = block(spoilt(random, obj)).encode()
    if random.random() < 0.5:
        marks = (
            b"&a ",
            b"*a",
            b"<<: *a\n",
            b"!!binary ",
            b"!x ",
            b"---\n",
            b"\t",
            b"? ",
            b"|\n",
            b"[",
            b"{",
            b"%YAML 9\n",
        )
        at = random.randrange(len(text) + 1)
        text = text[:at] + random.choice(marks) + text[at:]
    return Attack(
        "POST", path, torn(random, text) if random.random() < 0.3 else text, {"Content-Type": N.media_yaml}
    )


def of_protobuf(random: Random) -> Attack:
    path = random.choice([path for path in OBJECTS if path.rpartition("/")[2] in KINDS])
    api_version = "v1" if path.startswith("/api/") else path.split("/")[2] + "/v1"
    text = protobuf(random, api_version, KINDS[path.rpartition("/")[2]])
    body = torn(random, text) if random.random() < 0.3 else text
    return Attack("POST", path, body, {"Content-Type": N.media_protobuf, "Accept": random.choice(ACCEPTS)})


def of_path(random: Random) -> Attack:
    path = random.choice((*PATHS, *OBJECTS, *(f"{each}/x" for each in OBJECTS)))
    if random.random() < 0.5:
        at = random.randrange(1, len(path) + 1)
        bits = (
            "/",
            "//",
            "%2f",
            "%",
            "%00",
            "%ff",
            "..",
            "/./",
            "~",
            "%25",
            "watch/",
            "a" * 300,
            "status",
            "\\",
            '"',
        )
        path = path[:at] + random.choice(bits) + path[at + random.randrange(3) :]
    if random.random() < 0.5:
        path += "?" + "&".join(random.choices(QUERIES, k=random.randrange(1, 3)))
    method = random.choice(("GET", "GET", "GET", "GET", "HEAD", "DELETE", "OPTIONS", "TRACE", "BREW"))
    if method == "DELETE" and path.startswith("/api/v1/n") and "configmaps" not in path:
        method = "GET"  # the bystander's namespace stays
    headers = {"Accept": random.choice(ACCEPTS)} if random.random() < 0.6 else {}
    return Attack(method, path, b"", headers)


def of_header(random: Random) -> Attack:
    headers = dict(random.choices(HEADERS, k=2))
    body = b'{"metadata":{"generateName":"h"}}' if random.random() < 0.3 else b""
    return Attack("POST" if body else "GET", f"{CORE}/configmaps", body, headers)


def large(random: Random) -> Attack:
    """A body that takes long: of the largest size, or of as many values as are taken."""
    count = random.choice((49_000, 1_400_000))
    names = [f"k{n}" for n in range(min(count, 150_000))]
    yaml = {"Content-Type": N.media_yaml}
    maps = f"{CORE}/configmaps"
    bodies: list[Callable[[], tuple[bytes, dict[str, str]]]] = [
        lambda: (b"a:\n" + b"- 1\n" * (count // 2), yaml),
        lambda: (b"a: [" + b"1," * count + b"]", yaml),
        lambda: (b"a:\n" + b"".join([b"- &%b x\n" % name.encode() for name in names]), yaml),
        lambda: (b"a:\n- &a [1,1,1,1,1,1,1,1,1]\n" + b"- *a\n" * (count // 3), yaml),
        lambda: (
            json.dumps({"metadata": {"name": "x", "labels": {f"{k}!": "-" for k in names}}}).encode(),
            {},
        ),
        lambda: (json.dumps({"metadata": {"name": "x"}, "data": dict.fromkeys(names, "a")}).encode(), {}),
        lambda: (json.dumps({"metadata": {"name": "x"}, **dict.fromkeys(names, "a")}).encode(), {}),
        lambda: (
            json.dumps({"metadata": {"name": "x", "finalizers": [f"a/{k}" for k in names]}}).encode(),
            {},
        ),
        lambda: (b'{"a":[' + b"1," * count, {}),
        lambda: (b'{"a":"' + b'\\"' * 1_500_000, {}),
        lambda: (b"k8s\0" + part(2, part(99, b"") * count), {"Content-Type": N.media_protobuf}),
        lambda: (b'{"metadata":{"name":"x"},"a":' + b"[" * 9_990 + b"]" * 9_990 + b"}", {}),
        lambda: (b"metadata: {name: x}\na: " + b"{a: " * 9_990 + b"1" + b"}" * 9_990, yaml),
        lambda: (random.choice(MARKS).encode() * (BODY_MAX // 6), random.choice(({}, yaml))),
    ]
    body, headers = random.choice(bodies)()
    headers = {"Content-Type": "application/json", **headers}
    if random.random() < 0.3:
        return heavy_patch(random)
    return Attack("POST", maps, body[:BODY_MAX], headers)


def heavy_patch(random: Random) -> Attack:
    """A JSON patch of many operations."""
    add = {"op": "add", "path": "/metadata/finalizers/0", "value": "a/b"}
    copy = {"op": "copy", "from": "/metadata", "path": "/metadata/annotations"}
    test = {"op": "test", "path": "/metadata/name", "value": "x"}
    body = [random.choice((add, copy, test))] * random.choice((9_000, 10_001, 30_000))
    headers = {"Content-Type": N.media_json_patch}
    return Attack("PATCH", f"{CORE}/configmaps/x", json.dumps(body).encode()[:BODY_MAX], headers)


MAKERS = (of_json, of_patch, of_yaml, of_protobuf, of_path, of_header)


def attacks(seed: int, count: int) -> Iterator[Attack]:
    random = Random(seed)
    for n in range(count):
        yield large(random) if n % LARGE_EVERY == LARGE_EVERY - 1 else random.choice(MAKERS)(random)


# --- sending --------------------------------------------------------------------------------------


def send(connection: HTTPSConnection, server: Server, attack: Attack) -> tuple[int, bytes]:
    """The code of the answer, and its body."""
    connection.putrequest(attack.method, attack.path, skip_accept_encoding=True)
    headers = {**server.headers(), **attack.headers, "Content-Length": str(len(attack.body))}
    for name, value in headers.items():
        connection.putheader(name, value.encode("latin1"))
    connection.endheaders(attack.body)
    response = connection.getresponse()
    if response.headers.get("Content-Length") is None:  # a watch, which its client leaves
        connection.close()
        return response.status, b""
    return response.status, response.read()


def attack_with(server: Server, seed: int, count: int, found: Found) -> None:
    """One client: its requests, on a new connection after each that was closed."""
    connection = server.connect()
    connection._validate_path = lambda url: None  # type: ignore[attr-defined]
    for attack in attacks(seed, count):
        try:
            code, body = send(connection, server, attack)
        except (HTTPException, OSError) as error:
            connection.close()
            found.lost.append(f"{attack.method} {attack.path[:80]} {attack.body[:60]!r}: {error!r}")
            continue
        found.codes[code] += 1
        if code == 500 and not any(text in body for text in GOOD_500):
            found.bad.append(
                f"{attack.method} {attack.path[:80]} {attack.headers} {attack.body[:300]!r}: {body[:200]!r}"
            )
    connection.close()


def attacked(server: Server, seed: int, requests: int) -> Found:
    """The results of `count` requests of several clients at once."""
    found = Found()
    clients = [
        threading.Thread(target=attack_with, args=(server, seed + n, requests // CLIENTS, found))
        for n in range(CLIENTS)
    ]
    for client in clients:
        client.start()
    for client in clients:
        client.join()
    return found


class Bystander:
    """Gets one namespace again and again.  waited_s: of each request; wrong: other answers than 200"""

    def __init__(self, server: Server) -> None:
        self.waited_s: list[float] = []
        self.wrong: list[int] = []
        self._server, self._ended = server, False
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def _run(self) -> None:
        connection = self._server.connect()
        while not self._ended:
            began_s = perf_counter()
            code, _ = send(connection, self._server, Attack("GET", "/api/v1/namespaces/default"))
            self.waited_s.append(perf_counter() - began_s)
            if code != 200:
                self.wrong.append(code)
            sleep(PAUSE_S)
        connection.close()

    def end(self) -> None:
        self._ended = True
        self._thread.join()


def main() -> int:
    requests = int(sys.argv[1]) if len(sys.argv) > 1 else REQUESTS
    print(machine())
    with noted() as (server, path):
        attacked(server, 1, WARM * CLIENTS)
        path.write_text("")
        before = server.descriptors(), server.memory_mib()
        bystander = Bystander(server)
        began_s = perf_counter()
        found = attacked(server, 1000, requests)
        took_s = perf_counter() - began_s
        bystander.end()
        sleep(2)  # connections end
        after = server.descriptors(), server.memory_mib()
        log, longest = server.log(), longest_of(path)
    p50, p99, most = (1000 * quantile(sorted(bystander.waited_s), share) for share in (0.5, 0.99, 1.0))
    print(
        f"{requests:,} requests in {took_s:.0f} s: {dict(sorted(found.codes.items()))}, {len(found.lost)} lost"
    )
    print(
        f"bystander of {len(bystander.waited_s):,}: p50 {p50:.1f} ms, p99 {p99:.1f} ms, most {most:.1f} ms, {len(bystander.wrong)} wrong"
    )
    print(f"descriptors {before[0]} then {after[0]}, memory {before[1]:.1f} then {after[1]:.1f} MiB")
    print(f"longest piece of work: {longest['all']:.1f} ms; {longest['writes']:.1f} ms for which writes wait")
    for line in [*found.bad[:20], *found.lost[:20], *log.splitlines()[:60]]:
        print(line)
    good = not (found.bad or found.lost or bystander.wrong or log.strip())
    kept = after[0] > before[0] + CLIENTS or after[1] > before[1] + MEMORY_MIB_MAX
    return 0 if good and not kept and longest["all"] <= PIECE_MS_MAX else 1


if __name__ == "__main__":
    sys.exit(main())
