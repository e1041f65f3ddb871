"""RoleBindings and ClusterRoleBindings: defaults, subjects, the fixed reference, the table."""

from __future__ import annotations

import pytest

from sim.api.kinds.defaults import apply_defaults
from sim.api.kinds.tables import columns, row
from sim.api.kinds.validation import validate_create
from sim.api.scheme.scheme import Scheme
from sim.api.types import Obj
from sim.ident import NAMES
from tests.unit.sim.api.golden_api import Api

GROUP_NAME = "rbac.authorization.k8s.io"
GROUP = f"/apis/{GROUP_NAME}/v1"
BINDINGS = f"{GROUP}/namespaces/golden-ns/rolebindings"
CLUSTER_BINDINGS = f"{GROUP}/clusterrolebindings"
MERGE = "application/merge-patch+json"
REFERENCE: Obj = {"apiGroup": GROUP_NAME, "kind": "ClusterRole", "name": "view"}


@pytest.fixture
def api() -> Api:
    return Api()


def binding(*subjects: Obj, **reference: str) -> Obj:
    return {"metadata": {"name": "b"}, "roleRef": {**REFERENCE, **reference}, "subjects": list(subjects)}


def refused(api: Api, path: str, body: Obj) -> str:
    reply = api.ask("POST", path, body)
    assert reply.code == 422
    return reply.message.partition(" is invalid: ")[2]


def test_group_of_role_user_and_group_is_filled_in(api: Api) -> None:
    given = binding({"kind": "User", "name": "u"}, {"kind": "Group", "name": "g"}, apiGroup="")
    given["subjects"].append({"kind": "ServiceAccount", "name": "s", "namespace": "n"})
    made = api.ask("POST", BINDINGS, given).obj
    assert made["roleRef"] == REFERENCE
    groups = [subject.get("apiGroup") for subject in made["subjects"]]
    assert groups == [GROUP_NAME, GROUP_NAME, None]


def test_binding_without_subjects_has_no_list_of_them(api: Api) -> None:
    assert "subjects" not in api.ask("POST", BINDINGS, binding()).obj


def test_absent_reference_lacks_kind_and_name(api: Api) -> None:
    assert refused(api, BINDINGS, {"metadata": {"name": "b"}}) == (
        '[roleRef.kind: Unsupported value: "": supported values: "Role", "ClusterRole", '
        "roleRef.name: Required value]"
    )


def test_cluster_binding_refers_to_cluster_roles_only(api: Api) -> None:
    assert refused(api, CLUSTER_BINDINGS, binding(kind="Role")) == (
        'roleRef.kind: Unsupported value: "Role": supported values: "ClusterRole"'
    )
    assert api.ask("POST", BINDINGS, binding(kind="Role")).code == 201


@pytest.mark.parametrize(
    ("reference", "expected"),
    [
        ({"apiGroup": "x"}, f'roleRef.apiGroup: Unsupported value: "x": supported values: "{GROUP_NAME}"'),
        ({"name": "a/b"}, "roleRef.name: Invalid value: \"a/b\": may not contain '/'"),
    ],
)
def test_reference_is_checked(api: Api, reference: dict[str, str], expected: str) -> None:
    assert refused(api, BINDINGS, binding(**reference)) == expected


@pytest.mark.parametrize(
    ("subject", "expected"),
    [
        (
            {},
            '[subjects[0].name: Required value, subjects[0].kind: Unsupported value: "": '
            'supported values: "ServiceAccount", "User", "Group"]',
        ),
        (
            {"kind": "User", "name": "x", "apiGroup": "v1"},
            f'subjects[0].apiGroup: Unsupported value: "v1": supported values: "{GROUP_NAME}"',
        ),
        (
            {"kind": "ServiceAccount", "name": "x", "namespace": "n", "apiGroup": "g"},
            'subjects[0].apiGroup: Unsupported value: "g": supported values: ""',
        ),
        ({"kind": "ServiceAccount", "name": "x"}, "subjects[0].namespace: Required value"),
    ],
)
def test_subject_is_checked(api: Api, subject: Obj, expected: str) -> None:
    assert refused(api, CLUSTER_BINDINGS, binding(subject)) == expected


def test_service_account_of_a_role_binding_needs_no_namespace(api: Api) -> None:
    assert api.ask("POST", BINDINGS, binding({"kind": "ServiceAccount", "name": "x"})).code == 201
    wrong = binding({"kind": "ServiceAccount", "name": "X_"})
    assert refused(api, BINDINGS, wrong).startswith('subjects[0].name: Invalid value: "X_": a lowercase RFC')


def test_reference_cannot_change_and_subjects_can(api: Api) -> None:
    api.ask("POST", BINDINGS, binding())
    reply = api.ask("PATCH", f"{BINDINGS}/b", {"roleRef": {"kind": "Role"}}, MERGE)
    assert reply.message == (
        f'RoleBinding.{GROUP_NAME} "b" is invalid: roleRef: Invalid value: rbac.RoleRef{{APIGroup:"{GROUP_NAME}", '
        'Kind:"Role", Name:"view"}: cannot change roleRef'
    )
    changed = api.ask("PATCH", f"{BINDINGS}/b", {"subjects": [{"kind": "User", "name": "u"}]}, MERGE)
    assert changed.obj["subjects"] == [{"kind": "User", "name": "u", "apiGroup": GROUP_NAME}]


def test_row_lists_subjects_by_kind(api: Api) -> None:
    resource = api.scheme.resource("rolebindings")
    given = binding(*({"kind": "User", "name": name} for name in "uv"), {"kind": "Group", "name": "g"})
    given["subjects"].append({"kind": "ServiceAccount", "name": "s", "namespace": "n"})
    made = api.ask("POST", BINDINGS, given).obj
    titles = [(column["name"], column["priority"]) for column in columns(resource)]
    assert titles == [
        ("Name", 0),
        ("Role", 0),
        ("Age", 0),
        ("Users", 1),
        ("Groups", 1),
        ("ServiceAccounts", 1),
    ]
    cells = row(resource, made, 1_700_000_060_000_000, NAMES["kubernetes"])["cells"]
    assert cells == ["b", "ClusterRole/view", "60s", "u, v", "g", "n/s"]


def test_group_follows_the_naming_set() -> None:
    resource = Scheme(NAMES["orch"]).resource("clusterrolebindings")
    given = {"apiVersion": resource.api_version, "metadata": {"name": "b"}}
    given |= {"roleRef": {"kind": "ClusterRole", "name": "r"}, "subjects": [{"kind": "User", "name": "u"}]}
    made = apply_defaults(resource, given)
    assert made["roleRef"]["apiGroup"] == made["subjects"][0]["apiGroup"] == "rbac.authorization.orch.io"
    assert validate_create(resource, made) == []
