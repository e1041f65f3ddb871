"""The whole bootstrap policy of a naming set, computed once.

Turns `policy.txt` into the roles and bindings that every cluster starts with, with sorted lists as
upstream's builder leaves them.  The text says how it is read.

Holds: the objects are in the order of their creation; they are shared, and nothing may change them.

Mirrors  kubernetes v1.25 plugin/pkg/auth/authorizer/rbac/bootstrappolicy (policy.go,
         controller_policy.go, namespace_policy.go), pkg/apis/rbac/v1/helpers.go (PolicyRuleBuilder
         and the builders of bindings), pkg/registry/rbac/rest/storage_rbac.go (PolicyData).
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Sequence
from functools import cache
from pathlib import Path
from typing import NamedTuple

from sim.api.types import Obj
from sim.ident import NAMES, Names

BOOTSTRAPPING = "rbac-defaults"  # value of the label of each object
NODE_ROLE = "system:node"
_CONTROLLER = "system:controller:"
_TEXT = Path(__file__).with_name("policy.txt")
_WORDS = {"read": "get list watch", "write": "create update patch delete deletecollection"}
_EVENTS = "create update patch on core events: events"
_KINDS = {"user": "User", "group": "Group"}


class BootstrapPolicy(NamedTuple):
    """The objects, in the order of their creation."""

    cluster_roles: tuple[Obj, ...]
    cluster_role_bindings: tuple[Obj, ...]
    roles: tuple[Obj, ...]
    role_bindings: tuple[Obj, ...]

    def objects(self) -> Iterator[tuple[str, Obj]]:
        """Yield (resource, object) in the order of creation."""
        for resource, objects in (
            ("clusterroles", self.cluster_roles),
            ("clusterrolebindings", self.cluster_role_bindings),
            ("roles", self.roles),
            ("rolebindings", self.role_bindings),
        ):
            for obj in objects:
                yield resource, obj


class _Entry(NamedTuple):
    """A role or binding of the text: its first line, and the rules below it."""

    head: str
    rules: tuple[str, ...]


@cache
def _sections() -> dict[str, list[_Entry]]:
    """The entries of each section of the text."""
    found: dict[str, list[_Entry]] = {}
    # A line with this indentation continues the one before.
    text = re.sub(r"\n {8}", " ", _TEXT.read_text(encoding="utf-8"))
    section: list[_Entry] = []
    for line in text.splitlines():
        if line.startswith("["):
            section = found[line.strip("[]")] = []
        elif line.startswith(" "):
            last = section.pop()
            section.append(last._replace(rules=(*last.rules, line.strip())))
        elif line and not line.startswith("#"):
            section.append(_Entry(line, ()))
    return found


GATES = tuple(
    dict.fromkeys(
        gate
        for entry in _sections()["controllers"]
        for line in (entry.head, *entry.rules)
        for gate in re.findall(r"\bif ([\w ]+)", line)
        for gate in gate.split()
    )
)
"""The gates that add roles or rules."""


class _Writer:
    """Writes the objects of one naming set.  gates: those that are on"""

    def __init__(self, names: Names, gates: Collection[str]) -> None:
        self._names, self._gates = names, gates
        self._api_group = names.group("rbac")

    def __getitem__(self, attribute: str) -> str:
        value: str = getattr(self._names, attribute)
        return value

    def _applies(self, condition: str) -> bool:
        return all(gate in self._gates for gate in condition.split())

    # --- rules ------------------------------------------------------------------------------------

    def rules(self, lines: Sequence[str]) -> list[Obj]:
        """The rules of a role."""
        made = []
        for line in lines:
            condition = ""
            if line.startswith("if "):
                condition, _, line = line.removeprefix("if ").partition(": ")
            if self._applies(condition):
                made.append(self._rule(line.format_map(self)))
        return made

    def _rule(self, line: str) -> Obj:
        if line == "events":
            line = _EVENTS
        verbs, kind, covered = re.split(r" (on|at) ", line, maxsplit=1)
        words = sorted(" ".join(_WORDS.get(verb, verb) for verb in verbs.split()).split())
        if kind == "at":
            return {"verbs": words, "nonResourceURLs": sorted(covered.split())}
        groups, _, resources = covered.partition(": ")
        resources, _, named = resources.partition(" named ")
        return {
            "verbs": words,
            "apiGroups": sorted(
                group if group == "*" else self._names.group(group) for group in groups.split()
            ),
            "resources": sorted(resources.split()),
            **({"resourceNames": sorted(named.split())} if named else {}),
        }

    # --- roles and bindings -----------------------------------------------------------------------

    def cluster_role(self, entry: _Entry) -> list[Obj]:
        """The ClusterRole of an entry; nothing if one of its gates is off."""
        name, *parts = entry.head.format_map(self).split(", ")
        words = dict(part.split(" ", 1) for part in parts)
        if not self._applies(words.get("if", "")):
            return []
        prefix = self._names.label_aggregate_prefix
        labels = {f"{prefix}{words['into']}": "true"} if "into" in words else {}
        made = self._object("ClusterRole", {"name": name}, labels)
        if "of" not in words:
            return [{**made, "rules": self.rules(entry.rules)}]
        selector = {"matchLabels": {f"{prefix}{words['of']}": "true"}}
        return [{**made, "rules": None, "aggregationRule": {"clusterRoleSelectors": [selector]}}]

    def role(self, entry: _Entry) -> Obj:
        """The Role of an entry."""
        return {
            **self._object("Role", self._placed(entry.head.format_map(self))),
            "rules": self.rules(entry.rules),
        }

    def binding(self, kind: str, line: str) -> Obj:
        """The binding that a line states."""
        name, _, rest = line.format_map(self).partition(" <-")
        subjects, _, role = rest.strip().partition(" to ")
        identity = self._placed(name)
        members = [self._subject(subject) for subject in subjects.split(", ") if subject]
        return {
            **self._object(kind, identity),
            **({"subjects": members} if members else {}),
            "roleRef": {
                "apiGroup": self._api_group,
                "kind": kind.removesuffix("Binding"),
                "name": role or identity["name"],
            },
        }

    def _subject(self, text: str) -> Obj:
        kind, _, name = text.partition(" ")
        if kind == "account":  # of the system namespace
            return {"kind": "ServiceAccount", "name": name, "namespace": self._names.system_namespace}
        return {"kind": _KINDS[kind], "apiGroup": self._api_group, "name": name}

    @staticmethod
    def _placed(text: str) -> Obj:
        namespace, _, name = text.rpartition("/")
        return {"name": name, **({"namespace": namespace} if namespace else {})}

    def _object(self, kind: str, identity: Obj, labels: Obj | None = None) -> Obj:
        return {
            "apiVersion": self._names.api_version("rbac", "v1"),
            "kind": kind,
            "metadata": {
                **identity,
                "labels": {self._names.label_bootstrapping: BOOTSTRAPPING, **(labels or {})},
                "annotations": {self._names.annotation_rbac_autoupdate: "true"},
            },
        }


def node_rules(names: Names) -> list[Obj]:
    """Return the rules of the role system:node, which the node authorizer applies too."""
    (entry,) = [entry for entry in _sections()["clusterroles"] if entry.head == NODE_ROLE]
    return _Writer(names, ()).rules(entry.rules)


def controllers() -> list[str]:
    """The service accounts of the controllers that need no gate."""
    return [entry.head for entry in _sections()["controllers"] if ", " not in entry.head]


@cache
def bootstrap_policy(naming: str, gates: tuple[str, ...] = ()) -> BootstrapPolicy:
    """Return the policy of a naming set ("orch", "kubernetes").

    gates: of `GATES`, those that are on
    """
    writer, text = _Writer(NAMES[naming], gates), _sections()
    own = [entry._replace(head=f"{_CONTROLLER}{entry.head}") for entry in text["controllers"]]
    of_controllers = [role for entry in own for role in writer.cluster_role(entry)]
    names = [role["metadata"]["name"] for role in of_controllers]
    bindings = [
        *(entry.head for entry in text["clusterrolebindings"]),
        *(f"{name} <- account {name.removeprefix(_CONTROLLER)}" for name in names),
    ]
    return BootstrapPolicy(
        (*(role for entry in text["clusterroles"] for role in writer.cluster_role(entry)), *of_controllers),
        tuple(writer.binding("ClusterRoleBinding", line) for line in bindings),
        tuple(writer.role(entry) for entry in text["roles"]),
        tuple(writer.binding("RoleBinding", entry.head) for entry in text["rolebindings"]),
    )
