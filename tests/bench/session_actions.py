"""The actions of a random session: requests of any user for any route, with any verb, and watches.

Turns a random generator into requests to a served cluster.  An action never fails: what the server
answers is counted by its status, and nothing is expected of it.
"""

from __future__ import annotations

import json
import socket
import ssl
import threading
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from http.client import HTTPException, HTTPSConnection
from pathlib import Path
from random import Random
from time import sleep
from typing import Any

import yaml

from sim.api.schema.resource import Resource
from sim.api.scheme.scheme import Scheme
from sim.ident import NAMES

Body = dict[str, Any]
ANSWER_S = 20.0
HOST = "127.0.0.1"
NAMESPACES = ("default", "kube-system", "a", "b")
PAGES = (
    *(
        "/",
        "/api",
        "/apis",
        "/apis/apps",
        "/apis/apps/v1",
        "/api/v1",
        "/version",
        "/nothing",
        "/apis/x.example",
    ),
    *("/healthz", "/livez?verbose", "/readyz", "/readyz?verbose", "/readyz/ping", "/logs/", "/metrics"),
    *("/metrics?process=scheduler", "/metrics?process=resources", "/metrics", "/metrics", "/openapi/v3"),
    *("/openapi/v3/apis/apps/v1", "/openapi/v2", "/.well-known/openid-configuration", "/openid/v1/jwks"),
    *(f"/debug/api_priority_and_fairness/dump_{what}" for what in ("priority_levels", "queues", "requests")),
    *("/debug/pprof/", "/debug/pprof/cmdline", "/debug/pprof/profile?seconds=1", "/debug/flags/v"),
)
TYPES = {
    "json": "application/json-patch+json",
    "merge": "application/merge-patch+json",
    "strategic": "application/strategic-merge-patch+json",
    "apply": "application/apply-patch+yaml",
}
ACCEPTS = (
    *("application/json",) * 4,
    "application/vnd.kubernetes.protobuf",
    "application/yaml",
    "application/json;as=Table;g=meta.k8s.io;v=v1",
    "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1",
    "text/html",
    "",
)
QUERIES = (
    *("",) * 4,
    *(
        "limit=2",
        "resourceVersion=0",
        "labelSelector=app%3Dweb",
        "fieldSelector=metadata.name%3Dx",
        "pretty=1",
    ),
    *("resourceVersion=999999999", "limit=1&continue=x", "timeoutSeconds=1", "resourceVersion=1"),
)
POD: Body = {"containers": [{"name": "c", "image": "i", "resources": {"requests": {"cpu": "10m"}}}]}
LABELS = {"app": "x"}
TEMPLATE: Body = {"metadata": {"labels": LABELS}, "spec": POD}
SELECTED: Body = {"selector": {"matchLabels": LABELS}, "template": TEMPLATE}
RUN_ONCE: Body = {"template": {"spec": {**POD, "restartPolicy": "Never"}}}
SPECS: dict[str, Body] = {
    "configmaps": {"data": {"a": "b"}},
    "secrets": {"stringData": {"a": "b"}},
    "namespaces": {},
    "serviceaccounts": {},
    "pods": {"spec": POD},
    "services": {"spec": {"selector": LABELS, "ports": [{"port": 80}]}},
    "deployments": {"spec": {**SELECTED, "replicas": 2}},
    "statefulsets": {"spec": {**SELECTED, "replicas": 1, "serviceName": "x"}},
    "daemonsets": {"spec": SELECTED},
    "jobs": {"spec": RUN_ONCE},
    "cronjobs": {"spec": {"schedule": "* * * * *", "jobTemplate": {"spec": RUN_ONCE}}},
    "horizontalpodautoscalers": {
        "spec": {
            "maxReplicas": 3,
            "scaleTargetRef": {"kind": "Deployment", "name": "web", "apiVersion": "apps/v1"},
        }
    },
    "poddisruptionbudgets": {"spec": {"minAvailable": 1, "selector": {"matchLabels": {"app": "web"}}}},
    "roles": {"rules": [{"apiGroups": [""], "resources": ["pods"], "verbs": ["get"]}]},
    "rolebindings": {
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "view"},
        "subjects": [{"kind": "User", "name": "viewer", "apiGroup": "rbac.authorization.k8s.io"}],
    },
    "leases": {"spec": {"holderIdentity": "x"}},
    "nodes": {"status": {"allocatable": {"cpu": "4", "memory": "8Gi", "pods": "110"}}},
    "resourcequotas": {"spec": {"hard": {"pods": "3"}}},
    "persistentvolumeclaims": {
        "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
    },
    "customresourcedefinitions": {
        "metadata": {"name": "xs.x.example"},
        "spec": {
            "group": "x.example",
            "scope": "Namespaced",
            "names": {"plural": "xs", "kind": "X"},
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
    "validatingwebhookconfigurations": {
        "webhooks": [
            {
                "name": "w.x.example",
                "clientConfig": {"url": "https://127.0.0.1:9/"},
                "rules": [
                    {
                        "apiGroups": [""],
                        "apiVersions": ["v1"],
                        "operations": ["CREATE"],
                        "resources": ["configmaps"],
                    }
                ],
                "failurePolicy": "Ignore",
                "timeoutSeconds": 1,
                "sideEffects": "None",
                "admissionReviewVersions": ["v1"],
            }
        ]
    },
}
ACCESS: Body = {"resourceAttributes": {"verb": "get", "resource": "pods", "namespace": "default"}}
REVIEWS: dict[str, Body] = {
    "selfsubjectaccessreviews": {"spec": ACCESS},
    "subjectaccessreviews": {"spec": {**ACCESS, "user": "viewer"}},
    "selfsubjectrulesreviews": {"spec": {"namespace": "default"}},
    "tokenreviews": {"spec": {"token": "viewer-token"}},
}


class Clients:
    """The connections of the users of a session, and the watches that are open."""

    def __init__(self, port: int, config: Path) -> None:
        self._port = port
        self._open: list[HTTPSConnection] = []
        self._threads: list[threading.Thread] = []
        self._context = ssl._create_unverified_context()
        user = yaml.safe_load(config.read_text())["users"][0]["user"]
        admin = {"Authorization": f"Bearer {user['token']}"}
        self.users: list[dict[str, str]] = [
            *(admin,) * 16,
            *({"Authorization": f"Bearer {name}-token"} for name in ("viewer", "root", "nobody")),
            {},
            {"Authorization": "Bearer wrong"},
            {**admin, "Impersonate-User": "viewer"},
            {**admin, "Impersonate-User": "system:node:node-0", "Impersonate-Group": "system:nodes"},
        ]

    def __enter__(self) -> Clients:
        return self

    def __exit__(self, *_: object) -> None:
        for connection in self._open:
            connection.close()
        for thread in self._threads:
            thread.join(ANSWER_S)

    def connection(self) -> HTTPSConnection:
        """A new connection."""
        made = HTTPSConnection(HOST, self._port, timeout=ANSWER_S, context=self._context)
        self._open.append(made)
        return made

    def beside(self, call: Callable[[], None]) -> None:
        """Do something beside the session."""
        thread = threading.Thread(target=call, daemon=True)
        self._threads.append(thread)
        thread.start()


class Session:
    """One session: draws actions and carries them out.

    answered: counts actions with the status of their answers
    """

    def __init__(self, rng: Random, clients: Clients, answered: Counter[str]) -> None:
        self._rng, self._clients, self._answered = rng, clients, answered
        self._resources = [each for each in Scheme(NAMES["kubernetes"]).resources if each.verbs]
        self._by_plural = {each.plural: each for each in reversed(self._resources)}
        self._kept = clients.connection()

    def act(self, actions: int) -> None:
        """Carry out this number of actions."""
        ways = (self._page, self._read, self._read, self._watch, self._create, self._create, self._create)
        more = (
            self._change,
            self._change,
            self._delete,
            self._review,
            self._sub,
            self._sub,
            self._leave,
            self._wait,
        )
        for _ in range(actions):
            self._rng.choice((*ways, *more))()

    # --- actions ----------------------------------------------------------------------------------

    def _page(self) -> None:
        self._send(self._rng.choice(("GET",) * 9 + ("POST", "HEAD")), self._rng.choice(PAGES))

    def _read(self) -> None:
        path = self._path(self._any(), named=self._rng.random() < 0.4)
        self._send("GET", f"{path}?{self._rng.choice(QUERIES)}")

    def _watch(self) -> None:
        """Open a watch, read what it has after a while, and leave it at once, later, or to its end."""
        rng = self._rng
        query = rng.choice(("", "&resourceVersion=0", "&timeoutSeconds=1", "&allowWatchBookmarks=1"))
        path = f"{self._path(self._any())}?watch=1{query}"
        connection, headers, stays_s = (
            self._clients.connection(),
            self._headers(),
            rng.choice((0.0, 0.05, 1.0)),
        )

        def read() -> None:
            with suppress(OSError, HTTPException, ValueError, AttributeError):
                connection.request("GET", path, headers=headers)
                answer = connection.getresponse()
                self._answered[f"watch {answer.status}"] += 1
                assert connection.sock is not None
                connection.sock.settimeout(stays_s or 0.01)
                while answer.read1(1 << 16):
                    pass
            connection.close()

        self._clients.beside(read)

    def _create(self) -> None:
        resource = self._by_plural[self._rng.choice(list(SPECS))]
        body = self._object(resource)
        self._send("POST", f"{self._path(resource)}?{self._dry()}", json.dumps(body))

    def _change(self) -> None:
        rng = self._rng
        resource = self._by_plural[rng.choice(("deployments", *SPECS))]
        path, how = f"{self._path(resource, named=True)}?{self._dry()}", rng.choice(("put", *TYPES))
        labels: Body = {"metadata": {"labels": {"n": str(rng.randrange(9))}}}
        if how == "put":
            self._send("PUT", path, json.dumps(self._object(resource)))
        elif how == "json":
            body: Any = [{"op": "add", "path": "/metadata/labels", "value": labels["metadata"]["labels"]}]
            self._send("PATCH", path, json.dumps(body), TYPES[how])
        elif how == "apply":
            body = {"apiVersion": resource.api_version, "kind": resource.kind, **labels}
            self._send("PATCH", f"{path}&fieldManager=me&force=1", json.dumps(body), TYPES[how])
        else:
            self._send("PATCH", path, json.dumps(labels), TYPES[how])

    def _delete(self) -> None:
        rng = self._rng
        resource, named = self._any(), rng.random() < 0.85
        query = rng.choice(
            (self._dry(), "gracePeriodSeconds=0", "propagationPolicy=Foreground", "labelSelector=app")
        )
        self._send("DELETE", f"{self._path(resource, named=named)}?{query}")

    def _review(self) -> None:
        resource = self._by_plural[self._rng.choice(list(REVIEWS))]
        body = {"apiVersion": resource.api_version, "kind": resource.kind, **REVIEWS[resource.plural]}
        self._send("POST", self._path(resource, cluster=True), json.dumps(body))

    def _sub(self) -> None:
        """A request for a subresource."""
        rng = self._rng
        deployment, pod = (
            "/apis/apps/v1/namespaces/default/deployments/web",
            "/api/v1/namespaces/default/pods/x",
        )
        scale = json.dumps({"spec": {"replicas": rng.randrange(1, 6)}})
        token = json.dumps(
            {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {"audiences": []}}
        )
        evict = json.dumps(
            {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": "x", "namespace": "default"}}
        )
        choices: tuple[tuple[str, str, str, str], ...] = (
            ("GET", f"{deployment}/scale", "", ""),
            ("PATCH", f"{deployment}/scale?{self._dry()}", scale, TYPES["merge"]),
            ("PATCH", f"{deployment}/status", '{"status":{"replicas":9}}', TYPES["merge"]),
            ("GET", f"{pod}/log", "", ""),
            ("GET", f"{pod}/exec?command=ls", "", ""),
            ("POST", f"{pod}/eviction?{self._dry()}", evict, "application/json"),
            ("POST", "/api/v1/namespaces/default/serviceaccounts/default/token", token, "application/json"),
            ("POST", f"{pod}/binding", '{"target":{"name":"node-0"}}', "application/json"),
            ("GET", "/api/v1/nodes/node-0/proxy/healthz", "", ""),
            ("PATCH", "/api/v1/nodes/node-0", '{"spec":{"unschedulable":true}}', TYPES["merge"]),
            ("POST", "/api/v1/namespaces/default/configmaps", "{", "application/json"),
            ("POST", "/apis/x.example/v1/namespaces/default/xs", '{"kind":"X","apiVersion":"x.example/v1","metadata":{"generateName":"x"}}', "application/json"),
            ("PUT", "/api/v1/namespaces/a/finalize", '{"spec":{}}', "application/json"),
        )  # fmt: skip
        self._send(*rng.choice(choices))

    def _leave(self) -> None:
        """Leave before the answer, or before the request is whole."""
        rng = self._rng
        connection = self._clients.connection()
        body = json.dumps(self._object(self._by_plural["configmaps"]))
        lines = [
            "POST /api/v1/namespaces/default/configmaps HTTP/1.1",
            f"Host: {HOST}",
            "Content-Type: application/json",
        ]
        lines += [f"{name}: {value}" for name, value in self._headers().items() if name != "Content-Type"]
        text = "\r\n".join([*lines, f"Content-Length: {len(body)}", "", body]).encode()
        with suppress(OSError):
            connection.connect()
            assert connection.sock is not None
            connection.sock.sendall(text[: rng.choice((10, len(text) - 5, len(text), len(text)))])
            if rng.random() < 0.5:
                sleep(rng.random() * 0.02)
            with suppress(OSError):
                connection.sock.shutdown(socket.SHUT_RDWR)
        connection.close()
        self._answered["left"] += 1

    def _wait(self) -> None:
        sleep(self._rng.random() * 0.15)

    # --- their parts ------------------------------------------------------------------------------

    def _any(self) -> Resource:
        return self._rng.choice(self._resources)

    def _path(self, resource: Resource, *, named: bool = False, cluster: bool = False) -> str:
        top = f"/apis/{resource.group}/{resource.version}" if resource.group else f"/api/{resource.version}"
        inside = (
            resource.namespaced
            and not cluster
            and (named or resource.plural in SPECS or self._rng.random() < 0.6)
        )
        place = f"/namespaces/{self._rng.choice(NAMESPACES)}" if inside else ""
        name = self._rng.choice(("x", "y", "web", "node-0", "default", "a", "b")) if named else ""
        return f"{top}{place}/{resource.plural}" + (f"/{name}" if name else "")

    def _object(self, resource: Resource) -> Body:
        made = {"apiVersion": resource.api_version, "kind": resource.kind, **SPECS[resource.plural]}
        if resource.plural == "namespaces":
            return {**made, "metadata": {"name": self._rng.choice(("a", "b"))}}
        name = {"name": self._rng.choice(("x", "y"))} if self._rng.random() < 0.8 else {"generateName": "g-"}
        return {**made, "metadata": {"labels": LABELS, **name, **made.get("metadata", {})}}

    def _dry(self) -> str:
        return self._rng.choice(("", "", "", "dryRun=All"))

    def _headers(self) -> dict[str, str]:
        headers = {"Accept": self._rng.choice(ACCEPTS), **self._rng.choice(self._clients.users)}
        return {name: value for name, value in headers.items() if value}

    def _send(self, method: str, path: str, body: str = "", media: str = "application/json") -> None:
        headers = self._headers() | ({"Content-Type": media} if body else {})
        if self._rng.random() < 0.1:
            self._kept = self._clients.connection()
        try:
            self._kept.request(method, path, body or None, headers)
            answer = self._kept.getresponse()
            answer.read()
            self._answered[f"{method} {answer.status}"] += 1
        except (OSError, HTTPException):
            self._answered[f"{method} without an answer"] += 1
            self._kept.close()
            self._kept = self._clients.connection()
