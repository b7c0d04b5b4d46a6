"""What goes wrong in the lab."""

from __future__ import annotations

from vllm_fleet.errors import ConfigError, ExitCode, FleetError


class LabError(FleetError):
    """Something in the lab did not work."""

    code = ExitCode.FAILED


class LabRefusal(ConfigError):
    """The lab does not begin: nothing was touched."""
