# SPDX-License-Identifier: GPL-3.0-or-later
"""Text of systemd units and environment files: quoting, and which version knows what."""

import re

# The systemd version that introduced a directive. Everything that the unit of an engine may use
# is listed, so that a misspelt directive is refused instead of being ignored by systemd.
DIRECTIVE_SINCE = {
    "AllowedCPUs": 244,
    "AllowedMemoryNodes": 244,
    "CPUAffinity": 0,
    "CapabilityBoundingSet": 0,
    "LockPersonality": 235,
    "NUMAMask": 243,
    "NUMAPolicy": 243,
    "NoNewPrivileges": 187,
    "OOMPolicy": 243,
    "OOMScoreAdjust": 0,
    "PrivateIPC": 248,
    "PrivateTmp": 0,
    "ProtectClock": 245,
    "ProtectControlGroups": 232,
    "ProtectHome": 214,
    "ProtectHostname": 242,
    "ProtectKernelLogs": 244,
    "ProtectKernelModules": 232,
    "ProtectKernelTunables": 232,
    "ProtectProc": 247,
    "ProtectSystem": 214,
    "ReadOnlyPaths": 231,
    "ReadWritePaths": 231,
    "RestrictAddressFamilies": 211,
    "RestrictNamespaces": 233,
    "RestrictRealtime": 231,
    "RestrictSUIDSGID": 242,
    "SupplementaryGroups": 0,
    "SystemCallArchitectures": 209,
    "UMask": 0,
}
# These act on the unified cgroup hierarchy only; on the others systemd ignores them in silence.
UNIFIED_ONLY = ("AllowedCPUs", "AllowedMemoryNodes")

PLAIN_WORD = re.compile(r"^[A-Za-z0-9_@:,./=+-]+$")
ENVIRONMENT_NAME = re.compile(r"^[A-Za-z_][A-Za-z0-9_]*$")


def quote_argument(text):
    """Return one word of an Exec line that systemd reads back as exactly this text."""
    if PLAIN_WORD.match(text):
        return text
    escaped = text.replace("\\", "\\\\").replace('"', '\\"').replace("%", "%%").replace("$", "$$")
    return '"%s"' % re.sub("[\x01-\x1f\x7f]", _hex_escape, escaped)


def _hex_escape(found):
    return "\\x%02x" % ord(found.group(0))


def exec_line(argv, variables=None):
    """Return argv as the value of ExecStart.

    `variables` maps a placeholder such as '{release}' to the name of the environment variable
    that systemd puts there when it starts the process.
    """
    return " ".join(_word_with_variables(word, variables or {}) for word in argv)


def _word_with_variables(word, variables):
    for placeholder, variable in variables.items():
        if placeholder in word:
            parts = [_escape_only(part) for part in word.split(placeholder)]
            return '"%s"' % ("${%s}" % variable).join(parts)
    return quote_argument(word)


def _escape_only(part):
    quoted = quote_argument(part) if part else ""
    return quoted[1:-1] if quoted.startswith('"') else quoted


def environment_file(variables):
    """Return the text of an EnvironmentFile: sorted, each value in double quotes.

    Only the four characters that every systemd version unescapes are escaped.
    """
    lines = []
    for name in sorted(variables):
        value = re.sub(r'(["\\`$])', r"\\\1", variables[name])
        lines.append('%s="%s"\n' % (name, value))
    return "".join(lines)


def parse_environment_file(text):
    """Return the variables of an EnvironmentFile as environment_file() writes it."""
    found = {}
    for line in text.splitlines():
        name, equals, value = line.partition("=")
        if equals and ENVIRONMENT_NAME.match(name):
            found[name] = _unquote(value)
    return found


def _unquote(value):
    value = value.strip()
    if len(value) > 1 and value[0] == value[-1] == '"':
        return re.sub(r'\\(["\\`$])', r"\1", value[1:-1])
    return value


def environment_problem(name, value):
    """Say why a variable cannot stand in an EnvironmentFile; None where it can."""
    if not ENVIRONMENT_NAME.match(name):
        return "%r is no name of an environment variable (letters, digits, underscores)" % name
    if re.search("[\x00-\x1f\x7f]", value):
        return "the value of %s holds a line break or a control character" % name
    return None


def directive_problems(wanted):
    """Say which directives are not in the table; they would be ignored by systemd."""
    unknown = sorted(set(wanted) - set(DIRECTIVE_SINCE))
    allowed = ", ".join(sorted(DIRECTIVE_SINCE))
    return ["%s is not a known directive; known are %s" % (name, allowed) for name in unknown]


def knows(directive, version, cgroup):
    """Tell whether systemd of this version acts on the directive on this cgroup hierarchy."""
    if directive in UNIFIED_ONLY and cgroup != "v2":
        return False
    return DIRECTIVE_SINCE.get(directive, version + 1) <= version


def directive_lines(wanted, version, cgroup):
    """Return 'Key=value' lines, in the given order, for what this systemd knows."""
    return [
        "%s=%s" % (name, _directive_value(value))
        for name, value in wanted.items()
        if value is not None and knows(name, version, cgroup)
    ]


def _directive_value(value):
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, (list, tuple)):
        return " ".join(str(item) for item in value)
    return str(value)
