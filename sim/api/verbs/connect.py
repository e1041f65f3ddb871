"""Connecting subresources: exec, attach and portforward of pods; proxy of pods, services and nodes.

A request becomes a stream to the agent of a node or to a program of a pod, or the refusal that
precedes one: of an object, a container, a host, a port or a backend that is not there.

The caller puts three values among the options, in place of any that the client sent: `PATH`, the
rest of the URL behind `proxy`, `QUERY`, the whole query, and `UPGRADE` if the client wants to
change the protocol.

Webhooks see the options before any of the objects is looked up.

Holds: nothing is written; an answer never claims that a backend was reached.

Mirrors  kubernetes v1.25 apiserver pkg/endpoints/handlers/rest.go (ConnectResource),
         pkg/registry/core/pod/{strategy.go,rest/subresources.go},
         pkg/registry/core/service/storage/storage.go (ResourceLocation, isValidAddress),
         pkg/registry/core/node/strategy.go (ResourceLocation), pkg/kubelet/client/kubelet_client.go
         (GetConnectionInfo), pkg/util/node/node.go (GetPreferredNodeAddress), apimachinery
         pkg/util/proxy/{upgradeaware,transport}.go and pkg/util/net/port_split.go; golang net
         (Dialer, LookupPort).
Differs  of the ready addresses of a service the first is tried, where upstream chooses at random.
         Names of hosts resolve to the internal address of the node.
"""

from __future__ import annotations

from collections.abc import Generator
from ipaddress import ip_address
from urllib.parse import parse_qsl

from sim.api.dialing import joined, refused
from sim.api.refusals import Refusal, Steps, bad_request, internal
from sim.api.schema.json_text import go_quote
from sim.api.schema.kind import CONNECTING
from sim.api.status import not_found, service_unavailable
from sim.api.store import Answer, Get, Op
from sim.api.streams import StreamRequest
from sim.api.types import Obj, Reply
from sim.api.verbs.call import Call, connected, found
from sim.api.verbs.log import agent_of, container_of

PATH, QUERY, UPGRADE = "path", "query", "upgrade"
_SWITCHES = ("stdin", "stdout", "stderr", "tty")
_PORT_MAX = 65535
_PORTS = {"": 80, "http": 80, "https": 443}  # of schemes, and of names that every system knows
_BROADCAST = ip_address("255.255.255.255")
_Found = Generator[Op, Answer, Obj]


def connect(call: Call) -> Steps:
    """A request to attach, exec, portforward or proxy."""
    if "dryRun" in call.options:
        raise bad_request("dryRun is not supported")
    assert call.subresource in CONNECTING
    yield from connected(call, options_of(call))
    if call.subresource != "proxy":
        return (yield from _stream(call))
    proxied = {"pods": _proxy_pod, "services": _proxy_service, "nodes": _proxy_node}
    return (yield from proxied[call.request.resource](call))


def options_of(call: Call) -> Obj:
    """The options of a connection as an object, which admission sees.

    Raises Refusal if they cannot be converted (pkg/apis/core/v1/conversion.go).
    """
    sub = call.resource.subresource(call.subresource)
    assert sub is not None
    made: Obj = {"kind": sub.kind, "apiVersion": call.resource.api_version}
    given: dict[str, list[str]] = {}
    for name, value in parse_qsl(call.options.get(QUERY, ""), keep_blank_values=True):
        given.setdefault(name, []).append(value)
    if call.subresource == "proxy":
        path = call.options.get(PATH, "")
        return {**made, "path": path} if path else made
    if call.subresource == "portforward":
        problem = port_problem(given["ports"][0]) if given.get("ports") else ""
        if problem:
            raise bad_request(f"cannot convert to []int32: {problem}")
        ports = [int(port) for port in given["ports"][0].split(",")] if given.get("ports") else []
        return {**made, "ports": ports} if ports else made
    made |= {name: True for name in _SWITCHES if name in given and _is_on(given[name][0])}
    if given.get("container", [""])[0]:
        made["container"] = given["container"][0]
    return {**made, "command": given.get("command")} if call.subresource == "exec" else made


def _is_on(text: str) -> bool:
    """True for a switch of a query: it is off only if it says so."""
    return text.lower() not in ("0", "false")


# --- streams of containers ------------------------------------------------------------------------


def _stream(call: Call) -> Steps:
    pod = yield from _object(call, "pods", call.request.name)
    name = pod["metadata"]["name"]
    if call.subresource != "portforward":
        container_of(pod, call.options.get("container", ""))
    node_name = pod["spec"].get("nodeName", "")
    if not node_name:
        raise bad_request(f"pod {name} does not have a host assigned")
    node = yield from _object(call, "nodes", node_name)
    address, port = agent_of(node)
    if UPGRADE not in call.options:
        raise bad_request("Upgrade request required")
    listens, stream = call.registry.agent_listens, call.registry.stream
    if stream is None or (listens is not None and not listens(node_name)):
        raise _unreachable(call, refused(address, port))
    return stream(node_name, stream_request(call, pod), joined(address, port))


def stream_request(call: Call, pod: Obj) -> StreamRequest:
    """What the agent is asked for."""
    options, name = options_of(call), pod["metadata"]["name"]
    container = ""
    if call.subresource != "portforward":
        container = container_of(pod, call.options.get("container", ""))
    known = [*pod["spec"]["containers"], *(pod["spec"].get("ephemeralContainers") or ())]
    spec: Obj = next((one for one in known if one["name"] == container), {})
    # kubelet.go: GetAttach has the terminal of the container.
    terminal = spec.get("tty") if call.subresource == "attach" else options.get("tty")
    return StreamRequest(
        call.subresource,
        pod["metadata"]["namespace"],
        name,
        container,
        tuple(options.get("command") or ()),
        stdin=bool(options.get("stdin")),
        stdout=bool(options.get("stdout")),
        stderr=bool(options.get("stderr")) and not terminal,
        tty=bool(terminal),
        ports=tuple(options.get("ports") or ()),
    )


def port_problem(given: str) -> str:
    """Why ports are no numbers, "" if they are (pkg/apis/core/v1/conversion.go:
    Convert_Slice_string_To_Slice_int32).
    """
    for text in given.split(","):
        if not (text.isascii() and text.isdecimal()):
            problem = "invalid syntax"
        elif len(text.lstrip("0")) > len(str(_PORT_MAX)) or int(text) > _PORT_MAX:
            problem = "value out of range"
        else:
            continue
        return f"strconv.ParseUint: parsing {go_quote(text)}: {problem}"
    return ""


# --- proxies --------------------------------------------------------------------------------------


def _proxy_pod(call: Call) -> Steps:
    scheme, name, port = _parts_of(call, "pod")
    pod = yield from _object(call, "pods", name)
    if not port:
        declared = [each for container in pod["spec"]["containers"] for each in container.get("ports") or ()]
        port = str(declared[0]["containerPort"]) if declared else ""
    address = next(iter(_addresses_of(pod)), "")
    if not is_proxyable(address):
        raise bad_request("address not allowed")
    return _dialled(call, address, port, scheme)


def _proxy_service(call: Call) -> Steps:
    scheme, name, port = _parts_of(call, "service")
    if port.removeprefix("-").removeprefix("+").isdecimal():
        service = yield from _object(call, "services", name)
        named = [
            each.get("name", "") for each in service["spec"].get("ports") or () if each["port"] == int(port)
        ]
        if not named:
            text = f"no service port {int(port)} found for service {go_quote(name)}"
            raise Refusal.of(service_unavailable(text))
        port = named[0]
    endpoints = yield from _object(call, "endpoints", name)
    subsets = endpoints.get("subsets") or ()
    if not subsets:
        raise _no_endpoints(name)
    for subset in subsets:
        for offered in subset.get("ports") or ():
            if offered.get("name", "") != port:
                continue
            for address in subset.get("addresses") or ():
                if (yield from _is_of_pod(call, address)):
                    return _dialled(call, address["ip"], str(offered["port"]), scheme)
    raise _no_endpoints(call.request.name)


def _no_endpoints(name: str) -> Refusal:
    return Refusal.of(service_unavailable(f"no endpoints available for service {go_quote(name)}"))


def _is_of_pod(call: Call, address: Obj) -> Generator[Op, Answer, bool]:
    """True if an address of an Endpoints object is that of a pod in the same namespace."""
    target = address.get("targetRef") or {}
    if target.get("namespace") != call.request.namespace:
        return False
    scheme = call.registry.scheme
    key = scheme.key(scheme.resource("pods"), call.request.namespace, target.get("name", ""))
    pod = found((yield Get(key)))
    return pod is not None and address["ip"] in _addresses_of(pod.obj)


def _proxy_node(call: Call) -> Steps:
    scheme, name, port = _parts_of(call, "node")
    node = yield from _object(call, "nodes", name)
    address, own = agent_of(node)
    if _is_address(address) and not is_proxyable(address):
        raise bad_request("address not allowed")
    if port and port != str(own):
        return _dialled(call, address, port, scheme)
    if _is_redirected(call):
        return Reply(301, body="")
    listens, stream = call.registry.agent_listens, call.registry.stream
    if stream is None or (listens is not None and not listens(name)):
        raise _unreachable(call, refused(address, own))
    request = StreamRequest("agent", "", name, backend=(address, own), upgrade=UPGRADE in call.options)
    return stream(name, request, joined(address, own))


def _parts_of(call: Call, what: str) -> tuple[str, str, str]:
    """Scheme, name and port of `name`, `name:port` or `scheme:name:port`."""
    parts = call.request.name.split(":")
    scheme, name, port = {1: ["", *parts, ""], 2: ["", *parts], 3: parts}.get(len(parts), ["", "", ""])
    if not name or scheme not in _PORTS:
        raise bad_request(f"invalid {what} request {go_quote(call.request.name)}")
    return scheme, name, port


def _addresses_of(pod: Obj) -> list[str]:
    return [each.get("ip", "") for each in (pod.get("status") or {}).get("podIPs") or ()]


def _is_address(text: str) -> bool:
    try:
        ip_address(text)
    except ValueError:
        return False
    return True


def is_proxyable(address: str) -> bool:
    """False for what is no address, or none of a single host beyond this one and its link (golang
    net, IsGlobalUnicast).
    """
    try:
        parsed = ip_address(address)
    except ValueError:
        return False
    near = parsed.is_loopback or parsed.is_link_local or parsed.is_unspecified
    return not (near or parsed.is_multicast or parsed == _BROADCAST)


# --- connections ----------------------------------------------------------------------------------


def _number_of(port: str, scheme: str = "") -> int:
    """The number of a port; raises ValueError with the error of the dialer."""
    number = _PORTS[scheme] if not port else int(port) if port.isdecimal() else _PORTS.get(port)
    if number is None:
        raise ValueError(f"dial tcp: address tcp/{port}: unknown port")
    if number > _PORT_MAX:
        raise ValueError(f"dial tcp: address {port}: invalid port")
    return number


def _dialled(call: Call, address: str, port: str, scheme: str) -> Reply:
    """The connection of a proxy to a program."""
    if _is_redirected(call):
        return Reply(301, body="")
    try:
        number = _number_of(port, scheme)
    except ValueError as error:
        raise _unreachable(call, str(error)) from None
    if call.registry.dial is None:
        raise _unreachable(call, refused(address, number))
    request = StreamRequest(
        "proxy",
        call.request.namespace,
        call.request.name,
        backend=(address, number),
        encrypted=scheme == "https",
    )
    return call.registry.dial(request, lambda why: _unreachable(call, why).reply())


def _is_redirected(call: Call) -> bool:
    """True for a read of the bare `proxy`, which upstream redirects to `proxy/`."""
    reads = call.request.verb == "get" and UPGRADE not in call.options
    return reads and not call.options.get(PATH)


def _unreachable(call: Call, why: str) -> Refusal:
    if UPGRADE in call.options:
        return internal(f"error dialing backend: {why}")
    return Refusal.of(service_unavailable(f"error trying to reach service: {why}"))


def _object(call: Call, plural: str, name: str) -> _Found:
    """An object in the namespace of the request; raises if there is none.

    Quirk: the refusal names the resource of the request, also for another kind of object
    (InterpretGetError with the resource of the context).
    """
    resource = call.registry.scheme.resource(plural)
    namespace = call.request.namespace if resource.namespaced else ""
    item = found((yield Get(call.registry.scheme.key(resource, namespace, name))))
    if item is None:
        raise Refusal.of(not_found(call.registry.scheme.resource(call.request.resource), name))
    return item.obj
