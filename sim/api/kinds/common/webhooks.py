"""Validation of the address of a webhook: a URL, or a Service with a path and a port.

Mirrors  apiserver v1.25 pkg/util/webhook/validation.go.
"""

from __future__ import annotations

from sim.api.crd.urls import BadUrl, parse_url
from sim.api.validation import text
from sim.api.validation.errors import Errors, checked, invalid, required

_FORM = "; desired format: https://host[/path]"


def url(value: str, field: str) -> Errors:
    """Errors of the URL of a webhook."""
    try:
        parts = parse_url(value)
    except BadUrl as error:
        return [required(field, f"url must be a valid URL: {error}{_FORM}")]
    errors: Errors = []
    if parts.scheme != "https":
        errors.append(invalid(field, parts.scheme, f"'https' is the only allowed URL scheme{_FORM}"))
    if not parts.host:
        errors.append(invalid(field, "", f"host must be provided{_FORM}"))
    if parts.user is not None:
        errors.append(invalid(field, parts.user, "user information is not permitted in the URL"))
    if parts.fragment:
        errors.append(invalid(field, parts.fragment, "fragments are not permitted in the URL"))
    if parts.query:
        errors.append(invalid(field, parts.query, "query parameters are not permitted in the URL"))
    return errors


def service(namespace: str, name: str, path: str | None, port: int, field: str) -> Errors:
    """Errors of the Service of a webhook."""
    errors: Errors = []
    if not name:
        errors.append(required(f"{field}.name", "service name is required"))
    if not namespace:
        errors.append(required(f"{field}.namespace", "service namespace is required"))
    problems = text.port_number(port)
    if problems:
        errors.append(invalid(f"{field}.port", port, f"port is not valid: {','.join(problems)}"))
    if path in (None, "", "/"):
        return errors
    assert path is not None
    return errors + checked(f"{field}.path", path, _path_problems)


def _path_problems(path: str) -> list[str]:
    if path == "//":
        return ["segment[0] may not be empty"]
    problems = [] if path.startswith("/") else ["must start with a '/'"]
    # Quirk: the first character is dropped even if it is no slash
    for i, step in enumerate(path[1:].removesuffix("/").split("/")):
        if not step:
            problems.append(f"segment[{i}] may not be empty")
        else:
            problems += [f"segment[{i}]: {problem}" for problem in text.subdomain(step)]
    return problems
