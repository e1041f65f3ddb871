"""Credentials from a command that a client configuration names.

Turns the `exec` of a user into a token or a certificate, by one run of the command.

Mirrors  client-go v1.25 plugin/pkg/client/auth/exec/exec.go (KUBERNETES_EXEC_INFO,
         provideClusterInfo, installHint), pkg/apis/clientauthentication/v1 and v1beta1.
Differs  the command never has a terminal, so that `interactiveMode: Always` is refused; it has 60 s
         (upstream: no limit), since a process that runs alone would wait for ever.
"""

from __future__ import annotations

import json
import os
import subprocess  # runs a command that the user's own configuration names
from collections.abc import Mapping
from math import inf
from typing import Any

from sim.ident import NAMES
from sim.units import SECOND, parse_time
from sim.wire.rest.access import Access, AccessError, Given

LIMIT_S = 60.0
GROUP = NAMES["kubernetes"].group("client.authentication")  # what commands that exist speak
VERSIONS = (f"{GROUP}/v1", f"{GROUP}/v1beta1")
INFO = "KUBERNETES_EXEC_INFO"


def run_plugin(access: Access) -> Given:
    """Run the command of an access.  Raises AccessError."""
    spec = access.command
    assert spec is not None, "an access without a command asks for none"
    command, version = spec.get("command"), spec.get("apiVersion")
    if not isinstance(command, str) or not command:
        raise AccessError("exec.command: is missing")
    if version not in VERSIONS:
        raise AccessError(f"exec.apiVersion: must be one of {', '.join(VERSIONS)}")
    if spec.get("interactiveMode") == "Always":
        raise AccessError("exec.interactiveMode: standard input is not a terminal")
    environment = {**os.environ, INFO: json.dumps(_info(access, spec, version))}
    environment |= {each["name"]: each["value"] for each in spec.get("env") or ()}
    words = [command, *map(str, spec.get("args") or ())]
    try:
        done = subprocess.run(
            words,
            check=False,
            env=environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=LIMIT_S,
        )
    except FileNotFoundError:
        hint = f"\n{spec['installHint']}" if spec.get("installHint") else ""
        raise AccessError(f"exec: executable {command} not found{hint}") from None
    except subprocess.TimeoutExpired:
        raise AccessError(f"exec: executable {command} took more than {LIMIT_S:.0f} s") from None
    except OSError as error:
        raise AccessError(f"exec: executable {command} failed: {error.strerror}") from None
    if done.returncode:
        raise AccessError(f"exec: executable {command} failed with exit code {done.returncode}")
    return _given(command, version, done.stdout)


def _info(access: Access, spec: Mapping[str, Any], version: str) -> dict[str, Any]:
    inner: dict[str, Any] = {"interactive": False}
    if spec.get("provideClusterInfo"):
        entry = access.cluster or {}
        names = (
            "server",
            "tls-server-name",
            "insecure-skip-tls-verify",
            "certificate-authority-data",
            "proxy-url",
        )
        inner["cluster"] = {name: entry[name] for name in names if name in entry}
    return {"apiVersion": version, "kind": "ExecCredential", "spec": inner}


def _given(command: str, version: str, output: bytes) -> Given:
    try:
        answer = json.loads(output)
        status = answer["status"]
        if answer["apiVersion"] != version:
            raise AccessError(
                f"exec: plugin returned version {answer['apiVersion']}, and {version} was asked for"
            )
        token = status.get("token") or ""
        certificate, key = status.get("clientCertificateData") or "", status.get("clientKeyData") or ""
        expires = status.get("expirationTimestamp")
        expires_s = parse_time(expires) / SECOND if expires else inf
    except (ValueError, KeyError, TypeError, AttributeError):
        raise AccessError(f"exec: the output of {command} is no ExecCredential") from None
    if not token and not (certificate and key):
        raise AccessError(f"exec: plugin {command} didn't return a token or cert/key pair")
    return Given(token, f"{certificate}\n{key}".encode() if certificate else b"", expires_s)
