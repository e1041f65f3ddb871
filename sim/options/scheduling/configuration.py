"""The configuration file of the scheduler: its fields become options, and its profiles.

Turns the content of a file and the flags beside it into the options of a scheduler.

Holds: the flags of leader election win over the file; other flags that the file can say too are
refused beside it, where upstream reads them without an effect.

Mirrors  kubernetes v1.25 cmd/kube-scheduler/app/options/{options,configfile}.go: ApplyTo,
         loadConfig; pkg/scheduler/apis/config/{v1,v1beta3}/defaults.go;
         pkg/scheduler/apis/config/validation/validation.go.
Differs  extenders are refused; parallelism changes nothing; v1beta2 is not read.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from sim.errors import InputError, Problems
from sim.ident import NAMES, Names
from sim.options.base import raw_option
from sim.options.scheduling import fields
from sim.options.scheduling.arguments import arguments_of
from sim.options.scheduling.fields import Reading
from sim.options.scheduling.plugins import (
    FILTER,
    MULTI_POINT,
    POINTS,
    POST_FILTER,
    check_plugins,
    enabled_plugins,
)
from sim.options.scheduling.profiles import DEFAULT_NAME, ProfileSpec

CONFIG = "config"
VERSIONS = ("v1", "v1beta3")
_TOP = {
    "apiVersion": fields.text,
    "kind": fields.text,
    "parallelism": fields.whole,
    "leaderElection": fields.mapping,
    "clientConnection": fields.mapping,
    "enableProfiling": fields.boolean,
    "enableContentionProfiling": fields.boolean,
    "percentageOfNodesToScore": fields.whole,
    "podInitialBackoffSeconds": fields.whole,
    "podMaxBackoffSeconds": fields.whole,
    "profiles": fields.array,
    "extenders": fields.array,
}
_ELECTION = {
    "leaderElect": fields.boolean,
    "leaseDuration": fields.text,
    "renewDeadline": fields.text,
    "retryPeriod": fields.text,
    "resourceLock": fields.text,
    "resourceName": fields.text,
    "resourceNamespace": fields.text,
}
_ELECTION_FLAGS = {
    "leaderElect": "leader-elect",
    "leaseDuration": "leader-elect-lease-duration",
    "renewDeadline": "leader-elect-renew-deadline",
    "retryPeriod": "leader-elect-retry-period",
    "resourceLock": "leader-elect-resource-lock",
    "resourceName": "leader-elect-resource-name",
    "resourceNamespace": "leader-elect-resource-namespace",
}
_CLIENT = {
    "kubeconfig": fields.text,
    "orchconfig": fields.text,
    "acceptContentTypes": fields.text,
    "contentType": fields.text,
    "qps": fields.number,
    "burst": fields.whole,
}
_PROFILE = {"schedulerName": fields.text, "plugins": fields.mapping, "pluginConfig": fields.array}
_OWN = (
    "scheduler-name",
    "percentage-of-nodes-to-score",
    "pod-initial-backoff",
    "pod-max-backoff",
    "bind-timeout",
)


def kind_of(names: Names) -> str:
    """The kind of the file."""
    return f"{names.short.capitalize()}SchedulerConfiguration"


def group_of(names: Names) -> str:
    """The group of the file's apiVersion."""
    return f"{names.short}scheduler.config.{names.group_domain}"


def with_configuration(
    flags: Mapping[str, Any], names: Names, place: str = "", places: Mapping[str, str] | None = None
) -> tuple[Mapping[str, Any], Mapping[str, str]]:
    """The flags of a scheduler with those that its configuration file gives, and their places.

    Raises InputError.
    """
    entry = places or {}
    content = raw_option(flags, CONFIG)
    if not isinstance(content, Mapping) or not content:
        return flags, entry
    of_file = entry.get(CONFIG) or entry.get(f"--{CONFIG}") or place
    reading, problems = Reading(), Problems()
    result = _flags_of(content, names, reading)
    read_profiles(content, names, reading)
    for _, problem in reading.problems:
        problems.add(InputError(problem, of_file))
    for name in flags:
        bare = name.removeprefix("--")
        if bare in (*_OWN, f"{names.short}-api-qps", f"{names.short}-api-burst"):
            problem = f"option {bare} has no effect beside a configuration file"
            problems.add(InputError(problem, entry.get(name, place), "write it into the file"))
    problems.report()
    argument = {name.removeprefix("--") for name in flags}
    merged = {name: value for name, value in result.items() if name not in argument}
    return {**merged, **flags}, {**dict.fromkeys(merged, of_file), **entry}


def _flags_of(content: Mapping[str, Any], names: Names, reading: Reading) -> dict[str, Any]:
    """The options that a file gives."""
    _check_head(content, reading)
    top = reading.fields(content, "", _TOP)
    if top.get("parallelism", 16) <= 0:
        reading.invalid("parallelism", top["parallelism"], "should be an integer value greater than zero")
    if top.get("extenders"):
        reading.wrong("extenders", "extenders: programs that extend a scheduler are not called here")
    first, most = top.get("podInitialBackoffSeconds", 1), top.get("podMaxBackoffSeconds", 10)
    if first <= 0:
        reading.invalid("podInitialBackoffSeconds", first, "must be greater than 0")
    if most < first:
        why = "must be greater than or equal to PodInitialBackoffSeconds"
        reading.invalid("podMaxBackoffSeconds", most, why)
    share = top.get("percentageOfNodesToScore", 0)
    if not 0 <= share <= 100:
        reading.invalid("percentageOfNodesToScore", share, "not in valid range [0-100]")
    result: dict[str, Any] = {
        "percentage-of-nodes-to-score": share,
        "pod-initial-backoff": f"{first}s",
        "pod-max-backoff": f"{most}s",
    }
    election = reading.fields(top.get("leaderElection"), "leaderElection", _ELECTION)
    if election.get("leaderElect", True) and election.get("resourceLock", "leases") != "leases":
        lock = election["resourceLock"]
        reading.invalid("leaderElection.resourceLock", lock, 'resourceLock value must be "leases"')
    result |= {_ELECTION_FLAGS[name]: value for name, value in election.items() if value != ""}
    client = reading.fields(top.get("clientConnection"), "clientConnection", _CLIENT)
    if client.get("burst", 0) < 0:
        reading.invalid("clientConnection.burst", client["burst"], "must be non-negative")
    for name in ("qps", "burst"):
        if client.get(name):
            result[f"{names.short}-api-{name}"] = client[name]
    return result


def _check_head(content: Mapping[str, Any], reading: Reading) -> None:
    version, kind = content.get("apiVersion"), content.get("kind")
    entry = [(f"{group_of(names)}/{one}", kind_of(names)) for names in NAMES.values() for one in VERSIONS]
    if (version, kind) not in entry:
        listed = ", ".join(sorted({one for one, _ in entry}))
        kinds = " or ".join(sorted({one for _, one in entry}))
        reading.wrong(
            "apiVersion",
            f'no kind "{kind}" is registered for version "{version}"; wanted {kinds} of {listed}',
        )


def connection_flags(content: object, names: Names) -> dict[str, str]:
    """Options of a process that runs alone which the content of a file gives: its client
    configuration and the form of bodies.
    """
    connection = content.get("clientConnection") if isinstance(content, Mapping) else None
    entry = connection if isinstance(connection, Mapping) else {}
    named = {f"{each.short}config": f"{names.short}config" for each in NAMES.values()}
    named["contentType"] = f"{names.short}-api-content-type"
    return {option: str(entry[field]) for field, option in named.items() if entry.get(field)}


def accepted_types(content: object) -> str:
    """The forms of answers, as the header Accept names them, which the content of a file gives."""
    connection = content.get("clientConnection") if isinstance(content, Mapping) else None
    return str(connection.get("acceptContentTypes") or "") if isinstance(connection, Mapping) else ""


def profiles_in(content: Mapping[str, Any], names: Names = NAMES["orch"]) -> tuple[ProfileSpec, ...]:
    """The profiles of a file that has been checked."""
    return read_profiles(content, names, Reading())


def read_profiles(content: Mapping[str, Any], names: Names, reading: Reading) -> tuple[ProfileSpec, ...]:
    """The profiles of a file; without one that of the default."""
    entry = content.get("profiles")
    listed = entry if isinstance(entry, list) else []
    result: list[ProfileSpec] = []
    for path, one in reading.entries(listed or [{}], "profiles", _PROFILE):
        # The only profile may be without a name.
        name = one.get("schedulerName") or (DEFAULT_NAME if len(listed) <= 1 else "")
        if not name:
            reading.wrong(path, f"{path}.schedulerName: Required value")
        if any(other.name == name for other in result):
            place = f"{path}.schedulerName"
            reading.wrong(place, f'{place}: Duplicate value: "{name}"')
        result.append(_profile(name, one, reading, path))
    return tuple(result)


def _profile(name: str, given: Mapping[str, Any], reading: Reading, path: str) -> ProfileSpec:
    arguments = arguments_of(given.get("pluginConfig"), reading, f"{path}.pluginConfig")
    place = f"{path}.plugins"
    if not given.get("plugins"):
        return ProfileSpec(name, **arguments)
    sets = reading.fields(given["plugins"], place, dict.fromkeys((*POINTS, MULTI_POINT), fields.mapping))
    enabled, weights = enabled_plugins(sets, reading, place)
    check_plugins(enabled, name, reading, place)
    usual, usual_weights = enabled_plugins({}, Reading(), place)
    # A profile with the plugins of the default takes its fast paths.
    filters = frozenset(enabled[FILTER]) if {*enabled[FILTER]} != {*usual[FILTER]} else None
    return ProfileSpec(
        name,
        filters,
        weights if weights != usual_weights else None,
        "DefaultPreemption" in enabled[POST_FILTER],
        **arguments,
    )
