"""The health checks: /healthz, /livez, /readyz, and each check by itself.

Turns the checks of a path and those that fail into a `Document`.

Mirrors  kubernetes v1.25 apiserver pkg/server/healthz/healthz.go (handleRootHealth,
         InstallPathHandler), pkg/server/healthz.go (delayedHealthCheck), and the names of checks in
         pkg/server/hooks.go, config.go, kubernetes pkg/controlplane, apiextensions-apiserver and
         kube-aggregator pkg/apiserver/apiserver.go.
Differs  no check is one of a service that encrypts at rest.  A server with a journal has one more
         check of its readiness, which fails once the journal cannot be written.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from sim.ident import Names
from sim.options.features.gates import IDENTITY, OPENAPI_V3, STORAGE_VERSIONS
from sim.wire.http.forms.rendering import TEXT
from sim.wire.http.pages.document import NO_PAGE, NO_SNIFF, Document
from sim.wire.http.routing import query_pairs

LIVEZ = "livez"
SHUTDOWN, JOURNAL = "shutdown", "journal"
INFORMER_SYNC = "informer-sync"
FAIRNESS_HOOKS = ("priority-and-fairness-config-consumer", "priority-and-fairness-filter")
NO_FAIRNESS_HOOKS = ("max-in-flight-filter",)
HOOK = "poststarthook/"
# The hooks that end once the server has read from the storage; all others end at its start.
_READING = (
    f"{HOOK}crd-informer-synced",
    f"{HOOK}bootstrap-controller",
    f"{HOOK}rbac/bootstrap-roles",
    f"{HOOK}scheduling/bootstrap-system-priority-classes",
    f"{HOOK}priority-and-fairness-config-producer",
    "autoregister-completion",
    INFORMER_SYNC,
)


def checks_of(
    names: Names,
    fairness: bool,
    gates: Collection[str] = (),
    *,
    proxied: bool = False,
    journalled: bool = False,
) -> dict[str, tuple[str, ...]]:
    """The health checks of each path, in upstream's order.

    fairness: True if priority and fairness is on
    gates: feature gates with another value than their default
    proxied: True if the aggregator has a client certificate
    journalled: True if what clients do is written to a journal
    """
    storage, aggregator = names.check_storage, names.component("aggregator")
    server = names.component("apiserver")
    identity = IDENTITY in gates
    leases = (f"start-{server}-identity-lease-controller", f"start-{server}-identity-lease-garbage-collector")
    hooks = (
        f"start-{server}-admission-initializer",
        "generic-apiserver-start-informers",
        *(FAIRNESS_HOOKS if fairness else NO_FAIRNESS_HOOKS),
        "storage-object-count-tracker-hook",
        "start-apiextensions-informers",
        "start-apiextensions-controllers",
        "crd-informer-synced",
        "bootstrap-controller",
        "rbac/bootstrap-roles",
        "scheduling/bootstrap-system-priority-classes",
        "priority-and-fairness-config-producer",
        "start-cluster-authentication-info-controller",
        *(leases if identity else ()),
        *(("aggregator-reload-proxy-client-cert",) if proxied else ()),
        f"start-{aggregator}-informers",
        "apiservice-registration-controller",
        "apiservice-status-available-controller",
        *(("built-in-resources-storage-version-updater",) if identity and STORAGE_VERSIONS in gates else ()),
        f"{server}-autoregistration",
    )
    started = (
        *(HOOK + hook for hook in hooks),
        "autoregister-completion",
        f"{HOOK}apiservice-openapi-controller",
        *(() if OPENAPI_V3 in gates else (f"{HOOK}apiservice-openapiv3-controller",)),
    )
    alive = ("ping", "log", storage, *started)
    journal = (JOURNAL,) if journalled else ()
    ready = ("ping", "log", storage, f"{storage}-readiness", INFORMER_SYNC, *started, *journal, SHUTDOWN)
    return {"healthz": alive, LIVEZ: alive, "readyz": ready}


def failing(
    names: Names,
    what: str,
    *,
    running: bool,
    ready: bool,
    synced: bool,
    stored: bool,
    graced: bool,
    kept: bool = True,
) -> tuple[str, ...]:
    """The checks of a path that fail.

    running: True if a server runs; ready: and does not terminate
    synced: True if it has read from the storage since it started
    stored: True if the storage answers
    graced: True within the grace period after the start, in which /livez counts a hook as passed
    kept: False once the journal could not keep an operation
    """
    failed: list[str] = []
    if not stored:
        failed += [names.check_storage, f"{names.check_storage}-readiness"]
    if not running or not (synced or (what == LIVEZ and graced)):
        failed += _READING
    if not ready:
        failed.append(SHUTDOWN)
    if not kept and what == "readyz":
        failed.append(JOURNAL)
    return tuple(failed)


def health_page(
    checks: Mapping[str, Sequence[str]], what: str, check: str | None, query: str, failed: Collection[str]
) -> Document:
    """The page of all checks of a path, or of one.  check: None for all of them"""
    if check is not None:
        if check not in checks[what]:
            return NO_PAGE
        good = check not in failed
        text = "ok" if good else f"internal server error: {check} failed: reason withheld\n"
        headers = {} if good else NO_SNIFF
        return Document(200 if good else 500, raw=text.encode(), media=TEXT, headers=headers)
    asked = list(query_pairs(query))
    excluded = [value for key, value in asked if key == "exclude"]
    lines, bad = [], False
    for name in checks[what]:
        if name in excluded:
            lines.append(f"[+]{name} excluded: ok")
        elif name not in failed:
            lines.append(f"[+]{name} ok")
        else:
            lines.append(f"[-]{name} failed: reason withheld")
            bad = True
    unknown = sorted({name for name in excluded if name not in checks[what]})
    if unknown:
        listed = ",".join(f'"{name}"' for name in unknown)
        lines.append(f"warn: some health checks cannot be excluded: no matches for {listed}")
    if bad:
        text, code = "\n".join([*lines, f"{what} check failed", ""]), 500
    elif all(key != "verbose" for key, _ in asked):
        text, code = "ok", 200
    else:
        text, code = "\n".join([*lines, f"{what} check passed", ""]), 200
    return Document(code, raw=text.encode(), media=TEXT, headers=NO_SNIFF)
