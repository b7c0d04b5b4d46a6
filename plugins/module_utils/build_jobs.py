# SPDX-License-Identifier: GPL-3.0-or-later
"""How many compilers may run at once, and what the end of a build means. Pure."""

__metaclass__ = type

# Seen: 3 to 5 GB for each nvcc thread; a plain C++ compiler stays below 2 GB.
MEMORY_PER_JOB_KB = {"cuda": 5 * 1024 * 1024, "cpu": 2 * 1024 * 1024, "empty": 1024 * 1024}
_KILLED = ("Killed", "signal 9", "SIGKILL", "exit code 137", "std::bad_alloc", "Out of memory")


def max_jobs(target, memory_kb, cpus):
    """Return the number of jobs that memory and cores allow, at least one."""
    by_memory = memory_kb // MEMORY_PER_JOB_KB.get(target, MEMORY_PER_JOB_KB["cuda"])
    return max(1, min(int(by_memory), int(cpus)))


def memory_kb(meminfo):
    """Return the available memory that /proc/meminfo tells, in kB."""
    sizes = {}
    for line in meminfo.splitlines():
        name, _colon, rest = line.partition(":")
        words = rest.split()
        if words and words[0].isdigit():
            sizes[name] = int(words[0])
    return sizes.get("MemAvailable", sizes.get("MemTotal", 0))


def out_of_memory(rc, tail):
    """Say whether a build ended because the kernel killed a compiler."""
    if rc in (-9, 137):
        return True
    return rc != 0 and any(word in tail for word in _KILLED)


def explain(rc, tail, jobs, log):
    """Return why a build failed, in one sentence, with the next step."""
    if rc is None:
        return "it did not end in the time allowed; raise the timeout (log: %s)" % log
    if out_of_memory(rc, tail):
        return (
            "out of memory: a compiler was killed with %s jobs at once; lower the number of jobs "
            "or add memory (log: %s)" % (jobs, log)
        )
    return "exit code %s (log: %s)" % (rc, log)
