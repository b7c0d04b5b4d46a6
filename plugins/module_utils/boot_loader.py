# SPDX-License-Identifier: GPL-3.0-or-later
"""Put hugepage pairs on the kernel's command line through the boot loader that a host has."""

import os

from ansible_collections.vllm_fleet.baremetal.plugins.module_utils import boot_args

__metaclass__ = type

DEFAULT_GRUB = "/etc/default/grub"
DROP_IN = "/etc/default/grub.d/90-vllm-fleet-hugepages.cfg"
_CONFIGURATIONS = ("/etc/grub2-efi.cfg", "/etc/grub2.cfg", "/boot/grub2/grub.cfg")
_C_LOCALE = {"LC_ALL": "C", "LANGUAGE": "C"}
_TIME_LIMIT = ["timeout", "--kill-after=10", "300"]


class BootLoaderError(RuntimeError):
    """A boot loader that is not there, failed, or does not say what was asked of it."""


class BootLoader:
    """What every boot loader tool shares."""

    def __init__(self, module, host, tool):
        self.module = module
        self.host = host
        self.tool = tool

    def run(self, *arguments):
        """Run the tool in the C locale with a time limit; return its output."""
        command = _TIME_LIMIT + [self.tool] + list(arguments)
        code, out, err = self.module.run_command(command, environ_update=_C_LOCALE)
        if code != 0:
            told = (err or out).strip()
            raise BootLoaderError("%s ended with %d: %s" % (" ".join(command[3:]), code, told))
        return out

    def put(self, path, text):
        """Replace a file in one step, keeping the attributes that it has."""
        folder = os.path.dirname(path)
        if not os.path.isdir(folder):
            os.makedirs(folder, 0o755)
        draft = os.path.join(self.module.tmpdir, "boot-loader")
        with open(draft, "wb") as stream:
            stream.write(text.encode("utf-8"))
        os.chmod(draft, 0o644)
        self.module.atomic_move(draft, path)


class Grubby(BootLoader):
    """grubby edits the entry of each installed kernel."""

    def holds(self, totals, default_size):
        """Tell whether the entry of every kernel gives the pairs."""
        lines = boot_args.grubby_lines(self.run("--info=ALL"))
        return bool(lines) and all(boot_args.holds(words, totals, default_size) for words in lines)

    def set(self, totals, default_size):
        """Give every kernel the pairs, beside those that it has for other sizes."""
        lines = boot_args.grubby_lines(self.run("--info=ALL"))
        words = lines[0] if lines else []
        pairs = " ".join(boot_args.merged(words, totals, default_size))
        self.run("--update-kernel=ALL", "--args=%s" % pairs)


class UpdateGrub(BootLoader):
    """Debian's update-grub reads drop-in files, so that nobody else's file is edited."""

    configuration = "/boot/grub/grub.cfg"
    header = "Written by vllm-fleet"

    def holds(self, totals, _default_size):
        """Tell whether the drop-in file and the configuration made from it give the pairs."""
        words = " ".join(boot_args.arguments(totals))
        made = self.host.read(self.configuration) or ""
        written = self.host.read(DROP_IN) == boot_args.drop_in(self.header, totals)
        return written and words in made

    def set(self, totals, default_size):
        """Write the drop-in file and make the configuration again."""
        words = boot_args.default_words(self.host.read(DEFAULT_GRUB) or "")
        if set(boot_args.parse(words, default_size)[0]) & set(totals):
            raise BootLoaderError(
                "%s already sets hugepages of a size that is wanted here, and the kernel takes each"
                " size once: remove hugepagesz= and hugepages= there" % DEFAULT_GRUB
            )
        self.put(DROP_IN, boot_args.drop_in(self.header, totals))
        self.run()


class MakeConfig(BootLoader):
    """grub2-mkconfig reads /etc/default/grub only: our pairs are edited in, the rest is kept."""

    def configuration(self):
        """Return the real path of the configuration that this host boots with."""
        for path in _CONFIGURATIONS:
            efi = "efi" in path
            if self.host.exists(path) and efi == self.host.exists("/sys/firmware/efi"):
                return os.path.realpath(self.host.path(path))
        raise BootLoaderError("none of %s fits how this host boots" % ", ".join(_CONFIGURATIONS))

    def holds(self, totals, default_size):
        """Tell whether the defaults and the configuration made from them give the pairs."""
        words = boot_args.default_words(self.host.read(DEFAULT_GRUB) or "")
        if not boot_args.holds(words, totals, default_size):
            return False
        made = self.host.read(self.configuration()) or ""
        pairs = " ".join(boot_args.merged(words, totals, default_size))
        return pairs in made

    def set(self, totals, default_size):
        """Edit the defaults and make the configuration again."""
        text = self.host.read(DEFAULT_GRUB) or ""
        self.put(DEFAULT_GRUB, boot_args.edited_default(text, totals, default_size))
        self.run("-o", self.configuration())


def find(module, host):
    """Return the boot loader of the host."""
    for name, kind in (
        ("grubby", Grubby),
        ("update-grub", UpdateGrub),
        ("grub2-mkconfig", MakeConfig),
    ):
        tool = module.get_bin_path(name, opt_dirs=["/usr/sbin", "/sbin"])
        if tool:
            return kind(module, host, tool)
    raise BootLoaderError(
        "neither grubby nor update-grub nor grub2-mkconfig is on this host: set the kernel"
        " arguments by hand"
    )


def ensure(module, host, totals, default_size):
    """Have the next boot give the pairs; return whether that was a change. Reads back."""
    loader = find(module, host)
    if loader.holds(totals, default_size):
        return False
    loader.set(totals, default_size)
    if not loader.holds(totals, default_size):
        raise BootLoaderError(
            "%s ran, and the boot configuration still lacks '%s'"
            % (os.path.basename(loader.tool), " ".join(boot_args.arguments(totals)))
        )
    return True
