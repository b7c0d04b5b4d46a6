# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Where pip takes packages from: the options of every module that runs it."""

from __future__ import annotations


class ModuleDocFragment:
    """Documentation of the options in module_utils/pip_args.py."""

    DOCUMENTATION = r"""
options:
  index_url:
    description: Package index. Without it and with O(find_links), no index is used. Without both,
      the configuration of pip on the host decides.
    type: str
  extra_index_urls:
    description: More package indexes.
    type: list
    elements: str
    default: []
  find_links:
    description: Pages or directories with links to wheels.
    type: list
    elements: str
    default: []
  trusted_hosts:
    description: Servers whose certificate is not checked, and those without encryption.
    type: list
    elements: str
    default: []
"""
