"""Logs of pods: validation of the options and choice of the container.

The API server passes a valid request to the node agent through `Registry.log`; other requests are
refused.

Mirrors  kubernetes v1.25 pkg/registry/core/pod/rest/log.go, pkg/registry/core/pod/strategy.go
         (LogLocation), pkg/apis/core/validation: ValidatePodLogOptions.
"""

from __future__ import annotations

from collections.abc import Mapping
from urllib.parse import urlencode

from sim.api import status
from sim.api.refusals import Refusal, Steps, bad_request, internal
from sim.api.schema.times import time_problem
from sim.api.store import Get
from sim.api.streams import LogOptions
from sim.api.types import Obj, Reply
from sim.api.validation.errors import AT_LEAST_ZERO, FieldError, forbidden, invalid
from sim.api.verbs.call import Call, found, is_true
from sim.units import go_quote, parse_time

INT64_DIGITS = 19
# The default of the option for the preferred types of node addresses.
PREFERRED = ("Hostname", "InternalDNS", "InternalIP", "ExternalDNS", "ExternalIP")
AGENT_PORT = 10250
_ABOVE_ZERO = "must be greater than 0"


def read_log(call: Call) -> Steps:
    """GET pods/NAME/log."""
    errors = errors_of(call.options)
    if errors:
        raise Refusal.of(status.invalid("", "PodLogOptions", call.request.name, errors))
    item = found((yield Get(call.key)))
    if item is None:
        raise call.not_found()
    container = container_of(item.obj, call.options.get("container", ""))
    node_name = item.obj["spec"].get("nodeName")
    if not node_name:
        return Reply(204, body="")
    if call.registry.log is None:
        return Reply(200, body="")
    nodes = call.registry.scheme.resource("nodes")
    node = found((yield Get(call.registry.scheme.key(nodes, "", node_name))))
    if node is None:  # Quirk: the missing node is reported as a missing pod
        raise Refusal.of(status.not_found(call.resource, node_name))
    url, host = _location(call, item.obj, node.obj, container)
    answer = call.registry.log(call, item, container, host)
    if answer is None:
        text = f'Get "{url}": dial tcp {host}: connect: connection refused'
        return Reply(500, body=status.plain_error(text))
    return answer


def agent_of(node: Obj) -> tuple[str, int]:
    """Address and port of a node's agent; raises if the node reports no address."""
    status = node.get("status") or {}
    addresses = status.get("addresses") or []
    known = {each["type"]: each["address"] for each in reversed(addresses)}
    chosen = next((known[kind] for kind in PREFERRED if kind in known), None)
    if chosen is None:
        shown = " ".join(f"{{{each['type']} {each['address']}}}" for each in addresses)
        raise internal(f"no preferred addresses found; known addresses: [{shown}]")
    endpoints = status.get("daemonEndpoints") or {}
    port = ((endpoints.get("kubeletEndpoint") or {}).get("Port")) or AGENT_PORT
    return known.get("InternalIP", chosen), port


def _location(call: Call, pod: Obj, node: Obj, container: str) -> tuple[str, str]:
    """The URL at the node's agent, and its host with the port."""
    address, port = agent_of(node)
    host = f"[{address}]:{port}" if ":" in address else f"{address}:{port}"
    return log_url(call.options, pod["metadata"], container, host), host


def log_url(options: Mapping[str, str], metadata: Obj, container: str, host: str) -> str:
    """The URL of the log of a container at an agent.

    metadata: of the pod
    host: of the agent, with its port
    """
    query = {name: "true" for name in ("follow", "previous", "timestamps") if is_true(options, name)}
    numbers = {name: number_of(options, name) for name in ("sinceSeconds", "tailLines", "limitBytes")}
    query |= {name: str(value) for name, value in numbers.items() if value is not None}
    if options.get("sinceTime"):
        query["sinceTime"] = options["sinceTime"]
    path = f"/containerLogs/{metadata['namespace']}/{metadata['name']}/{container}"
    shown = f"?{urlencode(sorted(query.items()))}" if query else ""
    return f"https://{host}{path}{shown}"


def log_options(options: Mapping[str, str]) -> LogOptions:
    """The options of a request that has no errors."""
    return LogOptions(
        previous=is_true(options, "previous"),
        follow=is_true(options, "follow"),
        timestamps=is_true(options, "timestamps"),
        since_s=number_of(options, "sinceSeconds"),
        since_us=parse_time(options["sinceTime"]) if options.get("sinceTime") else None,
        tail=number_of(options, "tailLines"),
        limit=number_of(options, "limitBytes"),
    )


def errors_of(options: Mapping[str, str]) -> list[FieldError]:
    """Errors in the options of a log request; raises `Refusal` for a text that is not a number."""
    errors = []
    if options.get("sinceTime"):
        problem = time_problem(options["sinceTime"])
        if problem:
            raise bad_request(problem)
    tail, limit, since = (number_of(options, name) for name in ("tailLines", "limitBytes", "sinceSeconds"))
    if tail is not None and tail < 0:
        errors.append(invalid("tailLines", tail, AT_LEAST_ZERO))
    if limit is not None and limit < 1:
        errors.append(invalid("limitBytes", limit, _ABOVE_ZERO))
    if since is not None and "sinceTime" in options:
        errors.append(forbidden("[]", "at most one of `sinceTime` or `sinceSeconds` may be specified"))
    elif since is not None and since < 1:
        errors.append(invalid("sinceSeconds", since, _ABOVE_ZERO))
    return errors


def container_of(pod: Obj, name: str) -> str:
    """The name of the container to read the log of; raises `Refusal` if it is not determined."""
    spec, pod_name = pod["spec"], pod["metadata"]["name"]
    kinds = ("initContainers", "containers", "ephemeralContainers")
    known = [container["name"] for kind in kinds for container in spec.get(kind) or ()]
    if name:
        if name not in known:
            raise bad_request(f"container {name} is not valid for pod {pod_name}")
        return name
    if len(spec["containers"]) > 1:
        listed = " ".join(known)
        raise bad_request(f"a container name must be specified for pod {pod_name}, choose one of: [{listed}]")
    return str(spec["containers"][0]["name"])


def number_of(options: Mapping[str, str], name: str) -> int | None:
    """The integer value of an option, None if it is absent."""
    text = options.get(name)
    if text is None:
        return None
    digits = text.removeprefix("-")
    if not digits.isascii() or not digits.isdecimal():
        raise bad_request(f"strconv.ParseInt: parsing {go_quote(text)}: invalid syntax")
    if len(digits) > INT64_DIGITS:  # checked first, so that a text of any length is never converted
        raise bad_request(f"strconv.ParseInt: parsing {go_quote(text)}: value out of range")
    return int(text)
