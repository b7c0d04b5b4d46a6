# SPDX-License-Identifier: GPL-3.0-or-later
"""What systemd says about an instance, and what follows from it. Pure: no command is run here."""

PROPERTIES = (
    "ActiveEnterTimestampMonotonic",
    "ActiveState",
    "DropInPaths",
    "EnvironmentFiles",
    "ExecMainCode",
    "ExecMainStartTimestampMonotonic",
    "ExecMainStatus",
    "FragmentPath",
    "LoadError",
    "LoadState",
    "MainPID",
    "NRestarts",
    "NeedDaemonReload",
    "Result",
    "SubState",
    "UnitFileState",
)
RUNNING = ("active", "activating", "reloading")
ENABLED = ("enabled", "enabled-runtime", "alias")


def unit_name(instance):
    """Return the unit of an instance."""
    return "vllm@%s.service" % instance


def parse_show(text):
    """Return the properties that `systemctl show` printed; repeated ones joined by line breaks."""
    found = {}
    for line in text.splitlines():
        name, equals, value = line.partition("=")
        if not equals:
            continue
        found[name] = found[name] + "\n" + value if name in found else value
    return found


def number(unit, name):
    """Return a property as a number, 0 where systemd has none to tell."""
    value = unit.get(name, "")
    return int(value) if value.isdigit() else 0


def seconds_since(unit, name, monotonic):
    """Return the seconds since a monotonic timestamp of the unit; None where it is not set."""
    stamp = number(unit, name)
    return monotonic - stamp / 1000000.0 if stamp else None


def files_in_use(unit):
    """Return the files that the unit says it was made from, as far as a person or a role owns them.

    What generators write under /run changes at each reload and says nothing about the instance.
    """
    paths = [unit.get("FragmentPath", "")] + unit.get("DropInPaths", "").split()
    for line in unit.get("EnvironmentFiles", "").splitlines():
        paths.append(line.rsplit(" (ignore_errors=", 1)[0])
    return [path for path in paths if path.startswith("/etc/")]


def decide(unit, stamps, now, monotonic, state="started", enabled=True, predicted=()):
    """Return (actions, reasons) that bring the unit to the wanted state.

    unit       properties as parse_show() returns them
    stamps     path -> time of the last change of each file in use (None: not there)
    now        wall clock, monotonic: the clock of systemd's timestamps, both read together
    predicted  files that an earlier task would change (check mode)
    """
    if state == "started":
        return _decide_started(unit, stamps, now, monotonic, enabled, predicted)
    return _decide_stopped(unit)


def _decide_started(unit, stamps, now, monotonic, enabled, predicted):
    actions, reasons = [], []
    if unit.get("LoadState") == "not-found":
        return (["enable"] if enabled else []) + ["start"], [
            "the unit is not there yet: it would start after its unit file is written"
        ]
    if unit.get("NeedDaemonReload") == "yes":
        actions.append("daemon-reload")
    if (unit.get("UnitFileState") in ENABLED) != enabled:
        actions.append("enable" if enabled else "disable")
        reasons.append("it was not enabled" if enabled else "it was enabled")
    if unit.get("ActiveState") in RUNNING:
        why = _restart_reasons(unit, stamps, now, monotonic, predicted)
        return actions + (["restart"] if why else []), reasons + why
    return actions + ["start"], reasons + ["it was %s" % _state_words(unit)]


def _state_words(unit):
    state, result = unit.get("ActiveState", "unknown"), unit.get("Result", "")
    return "%s (%s)" % (state, result) if state == "failed" and result else state


def _restart_reasons(unit, stamps, now, monotonic, predicted):
    reasons = ["%s would change" % path for path in predicted]
    if unit.get("NeedDaemonReload") == "yes":
        reasons.append("systemd has not read its unit files since they changed")
    age = seconds_since(unit, "ExecMainStartTimestampMonotonic", monotonic)
    if age is None:
        return reasons
    for path in sorted(stamps):
        if stamps[path] is not None and stamps[path] > now - age and path not in predicted:
            reasons.append("%s is newer than the process" % path)
    return reasons


def _decide_stopped(unit):
    actions, reasons = [], []
    if unit.get("ActiveState") not in ("inactive", "failed", None, ""):
        actions.append("stop")
        reasons.append("it was %s" % unit["ActiveState"])
    if unit.get("UnitFileState") in ENABLED:
        actions.append("disable")
        reasons.append("it was enabled")
    return actions, reasons


def load_problem(unit, name):
    """Say why systemd cannot use the unit at all; None where it can."""
    state = unit.get("LoadState", "")
    if state == "masked":
        return "%s is masked; `systemctl unmask %s` allows it again" % (name, name)
    if state in ("error", "bad-setting"):
        return "systemd cannot load %s: %s" % (name, unit.get("LoadError") or state)
    return None


def down_reason(unit, restarts):
    """Say why the unit is not coming up (failed, gone, or restarting); None where it may be."""
    state = unit.get("ActiveState", "")
    now = number(unit, "NRestarts")
    if state == "failed":
        return "it failed (%s, exit status %s)" % (
            unit.get("Result", "unknown"),
            unit.get("ExecMainStatus", "unknown"),
        )
    if now > restarts or unit.get("SubState") == "auto-restart":
        return "it exited with status %s and systemd restarts it (restart counter %d, was %d)" % (
            unit.get("ExecMainStatus", "unknown"),
            now,
            restarts,
        )
    if state not in RUNNING:
        return "it is %s" % (state or "unknown")
    return None
