"""FlowSchemas and PriorityLevelConfigurations as objects: what is filled in, refused, counted and
shown.
"""

from __future__ import annotations

from typing import Any

import pytest

from tests.unit.sim.api.golden_api import Api

GROUP = "/apis/flowcontrol.apiserver.k8s.io/v1beta2"
SCHEMAS, LEVELS = f"{GROUP}/flowschemas", f"{GROUP}/prioritylevelconfigurations"
MERGE = "application/merge-patch+json"
EVERYTHING = {"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"], "clusterScope": True}
ALICE = {"kind": "User", "user": {"name": "alice"}}


def schema(**spec: Any) -> dict[str, Any]:
    return {"metadata": {"name": "s"}, "spec": {"priorityLevelConfiguration": {"name": "exempt"}, **spec}}


def rule(subject: Any = ALICE, **covered: Any) -> dict[str, Any]:
    return {"subjects": [subject], "resourceRules": [{**EVERYTHING, **covered}]}


def level(name: str = "l", kind: str = "Limited", **limited: Any) -> dict[str, Any]:
    spec = {"type": kind, "limited": {"limitResponse": {"type": "Reject"}, **limited}}
    return {"metadata": {"name": name}, "spec": spec}


def queues(**queuing: int) -> dict[str, Any]:
    return {"type": "Queue", "queuing": queuing}


def test_what_is_left_out_is_filled_in() -> None:
    api = Api()
    made = api.ask("POST", SCHEMAS, schema(rules=[rule()])).obj
    assert made["spec"]["matchingPrecedence"] == 1000
    assert made["spec"]["rules"][0]["resourceRules"] == [{**EVERYTHING, "namespaces": None}]
    made = api.ask("POST", LEVELS, level(limitResponse=queues())).obj
    assert made["spec"]["limited"] == {
        "assuredConcurrencyShares": 30,
        "limitResponse": queues(queues=64, handSize=8, queueLengthLimit=50),
    }


@pytest.mark.parametrize(
    ("body", "says"),
    [
        (
            schema(matchingPrecedence=-1),
            "spec.matchingPrecedence: Invalid value: -1: must be a positive value",
        ),
        (schema(matchingPrecedence=10_001), "must not be greater than 10000"),
        (schema(matchingPrecedence=1), "only the schema named 'exempt' may have matchingPrecedence 1"),
        (
            schema(priorityLevelConfiguration={"name": ""}),
            "spec.priorityLevelConfiguration.name: Required value: must reference a priority level",
        ),
        (
            schema(distinguisherMethod={"type": "ByName"}),
            'Unsupported value: flowcontrol.FlowDistinguisherMethod{Type:"ByName"}',
        ),
        (
            schema(rules=[{"subjects": [ALICE]}]),
            "at least one of resourceRules and nonResourceRules has to be",
        ),
        (schema(rules=[{**rule(), "subjects": []}]), "subjects must contain at least one value"),
        (schema(rules=[rule({"kind": "Group"})]), "spec.rules[0].subjects[0].group: Required value"),
        (
            schema(rules=[rule({**ALICE, "group": {"name": "g"}})]),
            "group is forbidden when subject kind is not 'Group'",
        ),
        (
            schema(rules=[rule({"kind": "Robot"})]),
            'spec.rules[0].subjects[0].kind: Unsupported value: "Robot"',
        ),
        (schema(rules=[rule(verbs=[])]), "spec.rules[0].resourceRules[0].verbs: Required value"),
        (schema(rules=[rule(verbs=["*", "get"])]), "if '*' is present, must not specify other verbs"),
        (
            schema(rules=[rule(clusterScope=False)]),
            "spec.rules[0].resourceRules[0].namespaces: Required value",
        ),
        (level("exempt2", "Exempt"), "type must be 'Exempt' if and only if name is 'exempt'"),
        (level(kind="Free"), 'spec.type: Unsupported value: "Free"'),
        (level(assuredConcurrencyShares=-1), "assuredConcurrencyShares: Invalid value: -1: must be positive"),
        (level(limitResponse={"type": "Queue"}), "spec.limited.limitResponse.queuing: Required value"),
        (level(limitResponse=queues(queues=4, handSize=5)), "should not be greater than queues (4)"),
        (
            level(limitResponse=queues(queues=1000, handSize=8)),
            "required entropy bits of deckSize 1000 and handSize 8",
        ),
    ],
)
def test_what_could_not_be_gone_by_is_refused(body: Any, says: str) -> None:
    api = Api()
    path = LEVELS if "type" in body["spec"] else SCHEMAS
    reply = api.ask("POST", path, body)
    assert reply.code == 422
    assert says in reply.message


def test_only_a_changed_spec_counts_and_a_status_changes_nothing_else() -> None:
    api = Api()
    api.ask("POST", SCHEMAS, schema())
    labelled = api.ask("PATCH", f"{SCHEMAS}/s", {"metadata": {"labels": {"a": "b"}}}, MERGE).obj
    assert labelled["metadata"]["generation"] == 1
    moved = api.ask("PATCH", f"{SCHEMAS}/s", {"spec": {"matchingPrecedence": 5}}, MERGE).obj
    assert moved["metadata"]["generation"] == 2
    patch = {
        "metadata": {"labels": {"c": "d"}},
        "spec": {"matchingPrecedence": 6},
        "status": {"conditions": [{"type": "Mine", "status": "True"}]},
    }
    told = api.ask("PATCH", f"{SCHEMAS}/s/status", patch, MERGE).obj
    assert told["metadata"]["labels"] == {"a": "b"} and told["spec"] == moved["spec"]
    assert told["status"]["conditions"][0]["type"] == "Mine"


@pytest.mark.parametrize(
    ("path", "change", "text"),
    [
        (
            f"{SCHEMAS}/exempt",
            {"matchingPrecedence": 5},
            "flowcontrol.FlowSchemaSpec{PriorityLevelConfiguration:"
            'flowcontrol.PriorityLevelConfigurationReference{Name:"exempt"}, MatchingPrecedence:5, '
            "DistinguisherMethod:(*flowcontrol.FlowDistinguisherMethod)(nil), "
            "Rules:[]flowcontrol.PolicyRulesWithSubjects{flowcontrol.PolicyRulesWithSubjects{"
            'Subjects:[]flowcontrol.Subject{flowcontrol.Subject{Kind:"Group", User:(*flowcontrol.UserSubject)(nil), '
            "Group:(*flowcontrol.GroupSubject)(0xc000000000), "
            "ServiceAccount:(*flowcontrol.ServiceAccountSubject)(nil)}}, "
            "ResourceRules:[]flowcontrol.ResourcePolicyRule{flowcontrol.ResourcePolicyRule{"
            'Verbs:[]string{"*"}, APIGroups:[]string{"*"}, Resources:[]string{"*"}, ClusterScope:true, '
            'Namespaces:[]string{"*"}}}, NonResourceRules:[]flowcontrol.NonResourcePolicyRule{'
            'flowcontrol.NonResourcePolicyRule{Verbs:[]string{"*"}, NonResourceURLs:[]string{"*"}}}}}}: '
            "spec of 'exempt' must equal the fixed value",
        ),
        (
            f"{LEVELS}/catch-all",
            {"limited": {"assuredConcurrencyShares": 7}},
            'flowcontrol.PriorityLevelConfigurationSpec{Type:"Limited", '
            "Limited:(*flowcontrol.LimitedPriorityLevelConfiguration)(0xc000000000)}: "
            "spec of 'catch-all' must equal the fixed value",
        ),
    ],
)
def test_spec_of_a_mandatory_object_is_fixed(path: str, change: dict[str, Any], text: str) -> None:
    """The bootstrapped objects have it. To see it fail: compare with another precedence."""
    api = Api()
    assert api.ask("PATCH", path, {"metadata": {"labels": {"a": "b"}}}, MERGE).ok
    refused = api.ask("PATCH", path, {"spec": change}, MERGE)
    assert refused.message.endswith(f"spec: Invalid value: {text}")


@pytest.mark.parametrize(
    "path", [f"{kind}/{name}" for kind in (SCHEMAS, LEVELS) for name in ("exempt", "catch-all")]
)
def test_mandatory_objects_are_created_with_the_fixed_spec(path: str) -> None:
    assert Api().ask("PATCH", path, {"metadata": {"labels": {"a": "b"}}}, MERGE).ok
