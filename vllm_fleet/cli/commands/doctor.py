"""``doctor``: name what is wrong with the hosts, and the fix."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from vllm_fleet.cli.options import GlobalOptions
from vllm_fleet.cli.output import document, out
from vllm_fleet.cli.prepare import wanted
from vllm_fleet.errors import ExitCode

if TYPE_CHECKING:
    from vllm_fleet.doctor.collect import Collector, Examined

PARTS = (("seen", "seen"), ("means", "meaning"), ("fix", "fix"), ("page", "page"))


def doctor(options: GlobalOptions) -> ExitCode:
    """Examine the hosts and name what is wrong with them; changes nothing."""
    from vllm_fleet.doctor.examine import examine

    collector = examine(wanted(options), options.forks, options.user)
    code = collector.exit_code()
    if options.json:
        hosts = {name: _as_data(host, options) for name, host in collector.hosts.items()}
        document("doctor", exit_code=int(code), counts=_counts(collector), hosts=hosts)
    else:
        out("\n".join(lines(collector)))
    return code


def _counts(collector: Collector) -> dict[str, int]:
    findings = [row for host in collector.hosts.values() for row in host.findings]
    severities = [row["severity"] for row in findings]
    errors, warnings = severities.count("error"), severities.count("warning")
    return {**collector.counts(), "errors": errors, "warnings": warnings}


def _as_data(host: Examined, options: GlobalOptions) -> dict[str, Any]:
    data = {"status": host.status, "message": host.message, "findings": host.findings}
    # What was read is long: only for those who ask for more.
    return {**data, "facts": host.facts} if options.verbose else data


def lines(collector: Collector) -> list[str]:
    """Return the report for people: hosts with something wrong, then one line in sum."""
    told = []
    for name, host in collector.hosts.items():
        if host.findings:
            told += [f"{name} ({host.status})", *_finding_lines(host), ""]
    counts = _counts(collector)
    well = sum(host.status == "examined" and not host.findings for host in collector.hosts.values())
    states = [f"{counts[name]} {name}" for name in collector.counts() if counts[name]]
    told.append(f"{', '.join(states)}; nothing found on {well}")
    told.append(f"{counts['errors']} errors, {counts['warnings']} warnings")
    return told


def _finding_lines(host: Examined) -> list[str]:
    found = []
    for row in host.findings:
        found.append(f"  {row['severity']:<7}  {row['code']}: {row['title']}")
        found += [f"           {word + ':':<6} {row[key]}" for word, key in PARTS]
    return found
