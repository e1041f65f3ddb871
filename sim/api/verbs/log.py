"""Logs of pods: validation of the options and choice of the container.

The API server passes a valid request to the node agent through `Registry.log`; other requests are
refused.

Mirrors  kubernetes v1.25 pkg/registry/core/pod/rest/log.go, pkg/registry/core/pod/strategy.go
         (LogLocation), pkg/apis/core/validation: ValidatePodLogOptions.
Differs  `timestamps`, `sinceSeconds` and `sinceTime` change nothing.
"""

from __future__ import annotations

from collections.abc import Mapping

from sim.api import status
from sim.api.kinds.common.errors import AT_LEAST_ZERO, FieldError, forbidden, invalid
from sim.api.store import Get
from sim.api.types import Obj, Reply
from sim.api.verbs.call import Call, Refusal, Steps, bad_request, found

INT64_DIGITS = 19
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
    if not item.obj["spec"].get("nodeName"):
        return Reply(204, body="")
    if call.registry.log is None:
        return Reply(200, body="")
    return call.registry.log(call, item, container)


def errors_of(options: Mapping[str, str]) -> list[FieldError]:
    """Errors in the options of a log request; raises `Refusal` for a text that is not a number."""
    errors = []
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
        raise bad_request(f'strconv.ParseInt: parsing "{text}": invalid syntax')
    if len(digits) > INT64_DIGITS:  # checked first, so that a text of any length is never converted
        raise bad_request(f'strconv.ParseInt: parsing "{text}": value out of range')
    return int(text)
