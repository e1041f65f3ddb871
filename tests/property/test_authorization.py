"""The server's authorizer, which keeps answers, beside its chain, which keeps none."""

from __future__ import annotations

from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from actors.apiserver.authorization import Authorization
from sim.api.auth.abac import AbacAuthorizer, Policy
from sim.api.auth.chain import Chain, RbacMember
from sim.api.auth.node_authorizer import NodeAuthorizer
from sim.api.auth.node_graph import NodeGraph
from sim.api.auth.rbac.authorizer import RbacAuthorizer
from sim.api.auth.rbac.rules import Rule
from sim.api.auth.rbac.source import CLUSTER_ROLE_BINDINGS, ROLE_BINDINGS
from sim.api.auth.request_attributes import attributes_of
from sim.api.types import Obj, Request, UserInfo
from sim.ident import NAMES
from tests.property.test_rbac import BINDING, ROLES_MADE, filled

N = NAMES["orch"]
NODE_RULES = (Rule(("get", "list"), ("",), ("pods",)),)
POLICIES = st.lists(
    st.builds(
        Policy,
        user=st.sampled_from(("", "alice", "*")),
        group=st.sampled_from(("", "dev")),
        readonly=st.booleans(),
        api_group=st.sampled_from(("", "*")),
        resource=st.sampled_from(("pods", "*")),
        namespace=st.sampled_from(("", "ns", "*")),
    ),
    max_size=2,
)
REQUESTS = st.builds(
    lambda user, groups, verb, resource, namespace, name: Request(
        verb=verb, resource=resource, namespace=namespace, name=name, user=UserInfo(user, groups)
    ),
    st.sampled_from(("alice", "bob", "system:node:n1", "system:serviceaccount:ns:bot")),
    st.sampled_from(((), ("dev",), (N.group_nodes,), (N.group_masters,))),
    st.sampled_from(("get", "list")),
    st.sampled_from(("pods", "nodes", "secrets", "namespaces")),
    st.sampled_from(("", "ns", "other")),
    st.sampled_from(("", "x", "z")),
)


@settings(max_examples=200, deadline=None)
@given(
    ROLES_MADE,
    st.lists(BINDING, max_size=3),
    POLICIES,
    st.lists(REQUESTS, min_size=1, max_size=6),
)
def test_kept_answers_are_those_of_the_chain(
    roles: dict[tuple[str, str], list[Obj]],
    bindings: list[dict[str, Any]],
    policies: list[Policy],
    requests: list[Request],
) -> None:
    book, graph = filled(roles, bindings), NodeGraph(N)

    def chain() -> Chain:
        rbac = RbacMember(RbacAuthorizer(N, book))
        return Chain(N, [NodeAuthorizer(N, lambda: graph, NODE_RULES), AbacAuthorizer(policies), rbac])

    kept = Authorization(chain())
    for removed in (False, True):
        if removed:
            for number, made in enumerate(bindings):
                resource = ROLE_BINDINGS if made["namespace"] else CLUSTER_ROLE_BINDINGS
                book.remove(resource, made["namespace"], f"b{number}")
            kept.forget()
        for request in requests * 2:
            opinion = chain().authorize(request.user, attributes_of(request))
            refused = kept.refusal(request)
            assert (refused is None) == (opinion.decision.name == "ALLOW")
            if refused is not None and opinion.reason:
                assert refused["message"].endswith(opinion.reason)
