# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Give playbooks the parts of the catalog."""

from __future__ import annotations

DOCUMENTATION = r"""
name: catalog
short_description: Read a part of the version catalog
version_added: 0.1.0
description:
  - Returns the content of files in the collection's directory C(catalog), where all version
    knowledge is kept.
options:
  _terms:
    description: Names of parts, such as V(operating_systems).
    type: list
    elements: str
    required: true
author:
  - The vllm-fleet developers (@vllm-fleet)
"""

EXAMPLES = r"""
- name: Show the operating systems that are known
  ansible.builtin.debug:
    msg: "{{ lookup('vllm_fleet.baremetal.catalog', 'operating_systems') }}"
"""

RETURN = r"""
_list:
  description: The content of each part.
  type: list
  elements: dict
"""

from typing import Any

from ansible.errors import AnsibleLookupError
from ansible.plugins.lookup import LookupBase
from ansible_collections.vllm_fleet.baremetal.plugins.plugin_utils import catalog


class LookupModule(LookupBase):
    """The lookup."""

    def run(
        self, terms: list[str], variables: dict[str, Any] | None = None, **kwargs: Any
    ) -> list[dict[str, Any]]:
        """Return the content of each part."""
        self.set_options(var_options=variables, direct=kwargs)
        try:
            return [catalog.load(str(term)) for term in terms]
        except catalog.CatalogError as error:
            raise AnsibleLookupError(str(error)) from error
