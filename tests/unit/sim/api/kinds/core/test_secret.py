"""Validation of Secrets."""

from __future__ import annotations

from base64 import b64encode

import pytest

from tests.unit.sim.api.kinds.samples import created, made


@pytest.mark.parametrize(
    "text, problem",
    [
        ("{}", ""),
        ("null", ""),
        ("", "unexpected end of JSON input"),
        ("[1]", "json: cannot unmarshal array into Go value of type map[string]interface {}"),
        ("x", "invalid character 'x' looking for beginning of value"),
        ("[" * 100_000, "invalid character '[' exceeded max depth"),
    ],
)
def test_registry_credentials_must_be_a_json_mapping(text: str, problem: str) -> None:
    data = {".dockerconfigjson": b64encode(text.encode()).decode()}
    secret = made("secrets", type="kubernetes.io/dockerconfigjson", data=data)
    wanted = f'data[.dockerconfigjson]: Invalid value: "<secret contents redacted>": {problem}'
    assert created("secrets", secret) == ([wanted] if problem else [])
