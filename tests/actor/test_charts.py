"""Constructs of published charts: servers started by scripts, probes by their clients, hook Jobs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import httpx
import pytest
import yaml

from tests.actor.test_http import PODS, served

pytestmark = pytest.mark.slow
MAPS, SECRETS = "/api/v1/namespaces/default/configmaps", "/api/v1/namespaces/default/secrets"
HOOKS = "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations"
RBAC = "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings"
START = """
#!/bin/bash
[[ -f $PASSWORD_FILE ]] && export PASSWORD="$(< "${PASSWORD_FILE}")"
cp /mounted/redis.conf /opt/bitnami/redis/etc/redis.conf
args=("--port" "${REDIS_PORT}")
args+=("--requirepass" "${PASSWORD}" "--include" "/opt/bitnami/redis/etc/redis.conf")
exec redis-server "${args[@]}"
"""
PING = """
#!/bin/bash
[[ -f $PASSWORD_FILE ]] && export REDISCLI_AUTH="$(< "${PASSWORD_FILE}")"
answer=$(
  timeout -s 15 $1 \\
  redis-cli -h localhost -p $REDIS_PORT ping
)
if [ "$?" -eq "124" ]; then exit 1; fi
if [ "$answer" != "PONG" ]; then echo "$answer"; exit 1; fi
"""
REDIS = """
securityContext: {fsGroup: 1001}
containers:
- name: c
  image: docker.io/bitnami/redis:7
  securityContext: {runAsUser: 1001}
  command: [/bin/bash]
  args: [-ec, /scripts/start.sh]
  env: [{name: REDIS_PORT, value: "6380"}, {name: PASSWORD_FILE, value: /secret/password}]
  ports: [{name: redis, containerPort: 6380}]
  startupProbe: {tcpSocket: {port: redis}}
  readinessProbe: {exec: {command: [/bin/bash, -ec, /scripts/ping.sh 1]}, periodSeconds: 5, timeoutSeconds: 2}
  volumeMounts: [{name: s, mountPath: /scripts}, {name: p, mountPath: /secret}, {name: m, mountPath: /mounted}]
volumes:
- {name: s, configMap: {name: redis, defaultMode: 0755}}
- {name: m, configMap: {name: redis}}
- {name: p, secret: {secretName: redis}}
"""
POSTGRES = """
containers:
- name: c
  image: docker.io/bitnami/postgresql:14
  env: [{name: POSTGRES_PASSWORD, value: pw}]
  ports: [{name: sql, containerPort: 5432}]
  livenessProbe: {exec: {command: [/bin/sh, -c, 'exec pg_isready -U "postgres" -h 127.0.0.1 -p 5432']}}
  readinessProbe: {exec: {command: [/bin/sh, -c, -e, 'exec pg_isready -U "postgres" -d "dbname=a" -h 127.0.0.1']}}
"""
CLIENT = """
restartPolicy: OnFailure
initContainers:
- {name: wait, image: "postgres:14", command: [sh, -c, 'until pg_isready -h HOST; do sleep 2; done']}
containers:
- name: c
  image: postgres:14
  env: [{name: PGPASSWORD, value: GIVEN}]
  command: [sh, -ec, 'psql -h HOST -U postgres -c "SELECT 1, version()" -t -A; psql -h HOST -U postgres -c "SELECT 1"']
"""
NGINX = """
initContainers:
- name: copy
  image: docker.io/bitnami/nginx:1
  command: [/bin/bash]
  args: [-ec, '. /opt/bitnami/scripts/libfs.sh; if ! is_dir_empty /opt/bitnami/nginx/logs; then exit 1; fi']
containers:
- {name: c, image: "docker.io/bitnami/nginx:1", ports: [{containerPort: 8080}], readinessProbe: {tcpSocket: {port: 8080}}}
"""
CERTGEN = "registry.k8s.io/ingress-nginx/kube-webhook-certgen:v1@sha256:" + "0" * 64
WEBHOOK = """
metadata: {name: hook}
webhooks:
- name: a.example.com
  admissionReviewVersions: [v1]
  sideEffects: None
  failurePolicy: Ignore
  clientConfig: {service: {name: hook, namespace: default}}
"""


async def make(client: httpx.AsyncClient, path: str, value: Mapping[str, Any]) -> None:
    made = await client.post(path, json=value)
    assert made.status_code == 201, made.text


async def pod(client: httpx.AsyncClient, name: str, spec: str | Mapping[str, Any]) -> None:
    read = yaml.safe_load(spec) if isinstance(spec, str) else spec
    await make(client, PODS, {"metadata": {"name": name}, "spec": read})


def job(image: str, *args: str) -> Mapping[str, Any]:
    return {"restartPolicy": "OnFailure", "containers": [{"name": "c", "image": image, "args": list(args)}]}


async def is_ready(client: httpx.AsyncClient, name: str) -> bool:
    status = (await client.get(f"{PODS}/{name}")).json()["status"]
    return any(one["type"] == "Ready" and one["status"] == "True" for one in status["conditions"])


async def log_of(client: httpx.AsyncClient, name: str) -> str:
    return (await client.get(f"{PODS}/{name}/log?container=c")).text


async def test_redis_started_by_a_script_is_ready_once_its_client_is_answered() -> None:
    async with served(nodes=1) as (cluster, client):
        cluster.kernel.set_rate(float("inf"))
        await cluster.run_until("5s")
        data = {"start.sh": START.strip(), "ping.sh": PING.strip(), "redis.conf": "appendonly yes\n"}
        await make(client, MAPS, {"metadata": {"name": "redis"}, "data": data})
        await make(client, SECRETS, {"metadata": {"name": "redis"}, "stringData": {"password": "s3cret"}})
        await pod(client, "redis", REDIS)
        await cluster.run_until("60s")
        assert "Ready to accept connections" in await log_of(client, "redis")
        assert await is_ready(client, "redis")


async def test_postgres_answers_its_client_and_only_with_the_password() -> None:
    async with served(nodes=1) as (cluster, client):
        cluster.kernel.set_rate(float("inf"))
        await cluster.run_until("5s")
        await pod(client, "sql", POSTGRES)
        await cluster.run_until("20s")
        assert await is_ready(client, "sql")
        assert "database system is ready to accept connections" in await log_of(client, "sql")
        host = (await client.get(f"{PODS}/sql")).json()["status"]["podIP"]
        for name, password in (("right", "pw"), ("wrong", "other")):
            await pod(client, name, CLIENT.replace("HOST", host).replace("GIVEN", password))
        await cluster.run_until("40s")
        said = await log_of(client, "right")
        assert said.startswith("1|PostgreSQL 14.5")
        assert said.endswith(" ?column? \n----------\n        1\n(1 row)\n\n")
        assert 'FATAL:  password authentication failed for user "postgres"' in await log_of(client, "wrong")


async def test_nginx_of_bitnami_is_ready_and_says_that_it_has_started() -> None:
    async with served(nodes=1) as (cluster, client):
        cluster.kernel.set_rate(float("inf"))
        await cluster.run_until("5s")
        await pod(client, "web", NGINX)
        await cluster.run_until("40s")
        assert await is_ready(client, "web")
        assert "start worker processes" in await log_of(client, "web")


@pytest.mark.parametrize("allowed", [True, False])
async def test_certgen_makes_a_secret_and_patches_a_webhook_as_its_account_may(allowed: bool) -> None:
    async with served(nodes=1) as (cluster, client):
        cluster.kernel.set_rate(float("inf"))
        await cluster.run_until("5s")
        if allowed:
            subject = {"kind": "ServiceAccount", "name": "default", "namespace": "default"}
            role = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "cluster-admin"}
            await make(client, RBAC, {"metadata": {"name": "jobs"}, "roleRef": role, "subjects": [subject]})
        await make(client, HOOKS, yaml.safe_load(WEBHOOK))
        common = ("--namespace=default", "--secret-name=made")
        await pod(client, "create", job(CERTGEN, "create", "--host=hook,hook.default.svc", *common))
        await cluster.run_until("15s")
        patch = ("--webhook-name=hook", "--patch-mutating=false", "--patch-failure-policy=Fail")
        await pod(client, "patch", job(CERTGEN, "patch", *patch, *common))
        await cluster.run_until("30s")
        secret = await client.get(f"{SECRETS}/made")
        webhook = (await client.get(f"{HOOKS}/hook")).json()["webhooks"][0]
        if allowed:
            assert sorted(secret.json()["data"]) == ["ca", "cert", "key"]
            assert webhook["clientConfig"]["caBundle"] == secret.json()["data"]["ca"]
            assert webhook["failurePolicy"] == "Fail"
        else:
            assert secret.status_code == 404
            assert 'cannot get resource \\"secrets\\"' in await log_of(client, "create")
