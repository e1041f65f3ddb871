"""Authorities and keys that the controller managers are given."""

from __future__ import annotations

from pathlib import Path

import pytest

from sim.api.auth.account_tokens import TokenRules
from sim.api.verbs.call import Identities
from sim.app.cluster import Cluster
from sim.app.parts.credentials import published_authority
from sim.errors import InputError
from sim.scenario.plan.plan import ClusterPlan, ComponentPlan

PEM = "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n"


def test_tokens_of_controllers_are_signed_with_their_own_key_if_there_is_one() -> None:
    identities = Identities(TokenRules(("i",), ("i",)), lambda claims: "of servers")
    assert identities.token_of_controllers({}) == "of servers"
    identities.sign_for_controllers = lambda claims: "of controllers"
    assert (identities.token({}), identities.token_of_controllers({})) == ("of servers", "of controllers")


def test_file_without_a_certificate_is_no_authority(tmp_path: Path) -> None:
    file = tmp_path / "ca.crt"
    file.write_text("text")
    with pytest.raises(InputError, match="error parsing root-ca-file"):
        published_authority(str(file))


async def test_authority_of_the_option_is_published_in_each_namespace(tmp_path: Path) -> None:
    file = tmp_path / "ca.crt"
    file.write_text(PEM)
    plan = ClusterPlan(controller_manager=ComponentPlan(flags={"root-ca-file": str(file)}))
    async with Cluster(plan) as cluster:
        await cluster.run_for("5s")
        found = cluster.get("configmaps", cluster.names.config_map_root_ca)
        assert found is not None and found["data"] == {"ca.crt": PEM}
