# SPDX-License-Identifier: GPL-3.0-or-later
"""Checksums, atomic JSON files, and archives that can only write below one directory."""

import hashlib
import io
import json
import os
import tarfile
import zipfile

__metaclass__ = type

_CHUNK = 1024 * 1024


class ArchiveError(ValueError):
    """An archive that must not be unpacked, or lacks what is needed."""


def sha256_of(path):
    """Return the SHA-256 of a file."""
    summed = hashlib.sha256()
    with io.open(path, "rb") as stream:
        for chunk in iter(lambda: stream.read(_CHUNK), b""):
            summed.update(chunk)
    return summed.hexdigest()


def read_json(path):
    """Return the mapping in a JSON file; None where it is missing or no JSON mapping."""
    try:
        with io.open(path, encoding="utf-8") as stream:
            data = json.load(stream)
    except (IOError, OSError, ValueError):
        return None
    return data if isinstance(data, dict) else None


def write_json(path, data):
    """Write a JSON file so that readers see the old or the new one, never a part."""
    temporary = "%s.new" % path
    with io.open(temporary, "w", encoding="utf-8") as stream:
        stream.write(json.dumps(data, indent=2, sort_keys=True) + "\n")
        stream.flush()
        os.fsync(stream.fileno())
    os.chmod(temporary, 0o644)
    os.rename(temporary, path)


def top_directory(names):
    """Return the one directory that every member of an archive lies in."""
    tops = {name.split("/", 1)[0] for name in names if name not in (".", "./")}
    if len(tops) != 1:
        raise ArchiveError("the archive has no single top directory: %s" % sorted(tops)[:5])
    return tops.pop()


def unpack(archive, directory):
    """Unpack a tar archive into ``directory``; return the path of its top directory."""
    with tarfile.open(archive) as tar:
        members = tar.getmembers()
        top = top_directory([member.name for member in members])
        for member in members:
            _check_member(member, directory)
            member.uid = member.gid = 0
            member.uname = member.gname = "root"
            member.mode &= 0o755
        _extract(tar, members, directory)
    return os.path.join(directory, top)


def _extract(tar, members, directory):
    """Unpack; newer Pythons check each member a second time."""
    options = {"filter": "tar"} if hasattr(tarfile, "tar_filter") else {}
    for member in members:
        tar.extract(member, directory, **options)


def _check_member(member, directory):
    """Raise ArchiveError where a member would be written, or point, outside the directory."""
    root = os.path.realpath(directory)
    place = os.path.realpath(os.path.join(root, member.name))
    if not place.startswith(root + os.sep) and place != root:
        raise ArchiveError("the archive would write outside its directory: %s" % member.name)
    if member.issym() or member.islnk():
        base = os.path.dirname(place) if member.issym() else root
        target = os.path.realpath(os.path.join(base, member.linkname))
        if not target.startswith(root + os.sep):
            raise ArchiveError("a link of the archive points outside: %s" % member.name)
    elif not (member.isfile() or member.isdir()):
        raise ArchiveError("the archive holds a device or pipe: %s" % member.name)


def wheel_metadata(path):
    """Return the METADATA text of a wheel."""
    with zipfile.ZipFile(path) as wheel:
        names = [n for n in wheel.namelist() if n.endswith(".dist-info/METADATA")]
        if len(names) != 1:
            raise ArchiveError("%s is not a wheel: no METADATA" % path)
        return wheel.read(names[0]).decode("utf-8", "replace")


def write_stub_wheel(directory, name, version):
    """Write a wheel without content; return its path.

    It stands in for an excluded distribution while pip resolves the others, and is not installed.
    """
    info = "%s-%s.dist-info" % (name.replace("-", "_"), version)
    path = os.path.join(directory, "%s-%s-py3-none-any.whl" % (name.replace("-", "_"), version))
    with zipfile.ZipFile(path, "w") as wheel:
        metadata = "Metadata-Version: 2.1\nName: %s\nVersion: %s\n" % (name, version)
        wheel.writestr(info + "/METADATA", metadata)
        tags = "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
        wheel.writestr(info + "/WHEEL", tags)
        wheel.writestr(info + "/RECORD", "")
    return path
