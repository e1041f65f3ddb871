"""DefaultTolerationSeconds: pods stay a while on a node that is not ready or unreachable.

Mirrors  kubernetes v1.25 plugin/pkg/admission/defaulttolerationseconds/admission.go.
"""

from __future__ import annotations

from typing import Any

import msgspec

from sim.api.admission.base import Attributes, Denial, Operation, View, is_pod
from sim.api.memo import IdentityMemo
from sim.api.scheduling import NO_EXECUTE, toleration
from sim.api.types import Obj
from sim.ident import Names

# defaulttolerationseconds/admission.go: defaultNotReadyTolerationSeconds and its twin.
TOLERATION_S = 300


class Defaults(msgspec.Struct, frozen=True):
    """Options of plugins: --default-not-ready-toleration-seconds and
    --default-unreachable-toleration-seconds.
    """

    not_ready_toleration_s: int = TOLERATION_S
    unreachable_toleration_s: int = TOLERATION_S


class DefaultTolerationSeconds:
    """Lets pods stay five minutes on a node that is not ready or unreachable, by default."""

    def __init__(self, names: Names, defaults: Defaults) -> None:
        self._wanted = tuple(
            toleration(key, NO_EXECUTE, seconds)
            for key, seconds in (
                (names.taint_not_ready, defaults.not_ready_toleration_s),
                (names.taint_unreachable, defaults.unreachable_toleration_s),
            )
        )
        self._specs: IdentityMemo[Obj] = IdentityMemo()

    def concerns(self, operation: Operation, plural: str, subresource: str) -> bool:
        """True for requests with objects that the plugin mutates."""
        return operation != "delete" and is_pod(plural, subresource)

    def mutate(self, attributes: Attributes, obj: Obj, view: View) -> Obj | Denial:
        """The object as the plugin changes it, or the refusal."""
        spec = obj.get("spec") or {}
        made = self._specs.get(spec)
        if made is None:
            made = self._specs.put(self._tolerating(spec), spec)
        return obj if made is spec else {**obj, "spec": made}

    def _tolerating(self, spec: Obj) -> Obj:
        given = spec.get("tolerations") or ()
        missing = [w for w in self._wanted if not any(_covers(t, w["key"]) for t in given)]
        return {**spec, "tolerations": [*given, *missing]} if missing else spec


def _covers(toleration: Obj, key: Any) -> bool:
    # The operator and the value do not count, as upstream.
    return toleration.get("key", "") in ("", key) and toleration.get("effect", "") in ("", NO_EXECUTE)
