"""The filters of the service stage, as ansible-core calls them."""

from __future__ import annotations

import pytest
from ansible.errors import AnsibleFilterError
from ansible_collections.vllm_fleet.baremetal.plugins.filter.engine_instances import (
    engine_instances,
)
from ansible_collections.vllm_fleet.baremetal.plugins.filter.systemd_directives import (
    systemd_directives,
)
from ansible_collections.vllm_fleet.baremetal.plugins.filter.systemd_environment import (
    systemd_environment,
)

SHARED = {
    "accelerator": "cpu",
    "executable": ["/usr/bin/engine"],
    "releases_dir": "/opt/vllm/releases",
    "address": "127.0.0.1",
}


def test_instances_are_resolved_where_nothing_is_wrong() -> None:
    found = engine_instances([{"name": "a", "model": "/m", "port": "8000"}], **SHARED)
    assert found["problems"] == []
    assert found["checks"] == [
        {"name": "a", "port": 8000, "model": "/m", "release": "", "program": "/usr/bin/engine"}
    ]
    assert found["instances"][0]["port"] == 8000


def test_nothing_is_resolved_where_something_is_wrong() -> None:
    found = engine_instances([{"name": "a", "model": "/m", "port": 1}], **SHARED)
    assert len(found["problems"]) == 1
    assert found["checks"] == found["instances"] == []


def test_directives_that_systemd_knows() -> None:
    assert systemd_directives({"PrivateTmp": True, "ProtectProc": "invisible"}, 243) == [
        "PrivateTmp=yes"
    ]
    with pytest.raises(AnsibleFilterError, match="PrivatTmp"):
        systemd_directives({"PrivatTmp": True}, 255)


def test_environment_text_and_a_refusal_that_shows_no_value() -> None:
    assert systemd_environment({"B": 1, "A": "x y"}) == 'A="x y"\nB="1"\n'
    with pytest.raises(AnsibleFilterError) as refused:
        systemd_environment({"A": "geheim\n"})
    assert "geheim" not in str(refused.value)
