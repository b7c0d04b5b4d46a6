"""Run a playbook with ansible-runner: the only module that imports it.

ansible-runner's subprocess mode is used, with our own pipe: its terminal mode is slow with large
outputs and can only cancel by killing. The process it starts is ``launch.py``, which starts
ansible-playbook and, when told to stop, ends whatever that left behind.
"""

from __future__ import annotations

import codecs
import contextlib
import os
import select
import shlex
import signal
import sys
import threading
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from typing import Any

from ansible_runner.config.runner import RunnerConfig
from ansible_runner.runner import Runner
from ansible_runner.utils import OutputEventFilter

from vllm_fleet.engine import launch, request
from vllm_fleet.engine.queueing import Event, EventQueue, Handler
from vllm_fleet.engine.request import RunRequest
from vllm_fleet.engine.scratch import scratch

STOP_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
QUIET_S = 2.0


@dataclass(frozen=True)
class RunOutcome:
    """How the process ended; what happened on the hosts is for the judge."""

    rc: int
    cancelled_by: str = ""
    events: int = 0
    handler_errors: tuple[str, ...] = ()


def configure(run: RunRequest, folder: Path) -> Any:
    """Return ansible-runner's configuration: command line, environment and folder."""
    config = RunnerConfig(
        private_data_dir=str(folder),
        playbook=str(run.playbook),
        inventory=[absolute(source) for source in run.inventories],
        limit=run.limit or None,
        tags=",".join(run.tags) or None,
        forks=run.forks or None,
        verbosity=run.verbosity or None,
        cmdline=shlex.join(request.arguments(run)) or None,
        envvars=request.environment(),
        ident="run",
        fact_cache_type="memory",
        suppress_output_file=True,
        suppress_ansible_output=True,
        suppress_env_files=True,
    )
    config.prepare()
    # No setting of ansible-runner leads here for a playbook; the attributes are what it reads.
    config.runner_mode = "subprocess"
    config.suppress_output_file = True
    config.suppress_ansible_output = True
    config.cwd = str(Path.cwd())
    config.command = wrap(config.command, folder)
    for name in request.DROPPED_ENVIRONMENT:
        if name != "ANSIBLE_STDOUT_CALLBACK":
            config.env.pop(name, None)
    return config


def wrap(command: list[str], folder: Path) -> list[str]:
    """Return the command that starts ``command`` through the launcher."""
    launcher = [sys.executable, "-I", str(Path(launch.__file__)), str(folder)]
    return [*launcher, request.ansible_playbook(), *command[1:]]


def absolute(source: str) -> str:
    """Return an inventory source that does not depend on the working directory."""
    return source if "," in source else str(Path(source).absolute())


class Pump:
    """Reads Ansible's output in a thread and turns it into events."""

    def __init__(self, source: int, sink: Any) -> None:
        self.source = source
        self.sink = sink
        self.ended = threading.Event()
        self.thread = threading.Thread(target=self.work, name="pump", daemon=True)
        self.thread.start()

    def work(self) -> None:
        """Read until the end, or until it is quiet after the process has ended."""
        decode = codecs.getincrementaldecoder("utf-8")("replace").decode
        while chunk := self.read():
            self.sink.write(decode(chunk))
        self.sink.close()

    def read(self) -> bytes:
        """Return the next piece; a left-over process that holds the pipe does not hold us."""
        while not select.select([self.source], [], [], QUIET_S)[0]:
            if self.ended.is_set():
                return b""
        return os.read(self.source, 1 << 16)

    def finish(self) -> None:
        """Take in the rest after the process has ended."""
        self.ended.set()
        self.thread.join()


class Stopper:
    """Turns signals into requests on the launcher's control line."""

    def __init__(self, control: int) -> None:
        self.control = control
        self.cancelled_by = ""

    def __call__(self, signum: int, _frame: FrameType | None) -> None:
        self.cancelled_by = self.cancelled_by or signal.Signals(signum).name
        with contextlib.suppress(OSError):
            os.write(self.control, b"x")


@contextlib.contextmanager
def signals_to(stopper: Stopper) -> Iterator[None]:
    """Route stop signals to ``stopper``, and give them back afterwards."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = {signum: signal.signal(signum, stopper) for signum in STOP_SIGNALS}
    try:
        yield
    finally:
        for signum, handler in before.items():
            signal.signal(signum, handler)


@contextlib.contextmanager
def pipe() -> Iterator[tuple[int, int]]:
    """Give a pipe and close what is still open of it."""
    ends = os.pipe()
    try:
        yield ends
    finally:
        for end in ends:
            with contextlib.suppress(OSError):
                os.close(end)


def run(
    job: RunRequest,
    handlers: Iterable[Handler],
    prepare: Callable[[Event], Event] | None = None,
) -> RunOutcome:
    """Run the playbook to its end; every event goes to the handlers, in order."""
    with scratch() as folder, pipe() as (control_r, control_w), pipe() as (out_r, out_w):
        config = configure(job, folder)
        config.input_fd, config.output_fd, config.error_fd = control_r, out_w, out_w
        events = EventQueue(handlers, prepare)
        return _supervise(config, events, Stopper(control_w), (out_r, out_w))


def _supervise(
    config: Any, events: EventQueue, stopper: Stopper, out: tuple[int, int]
) -> RunOutcome:
    """Start, read events until the end, and say how it ended."""
    runner = Runner(config, event_handler=events.put)
    sink = OutputEventFilter(None, runner.event_callback, suppress_ansible_output=True)
    pump = Pump(out[0], sink)
    try:
        with signals_to(stopper):
            runner.run()
    finally:
        os.close(out[1])
        pump.finish()
        events.close()
    return RunOutcome(
        rc=runner.rc if isinstance(runner.rc, int) else 70,
        cancelled_by=stopper.cancelled_by,
        events=events.taken,
        handler_errors=tuple(events.errors),
    )
