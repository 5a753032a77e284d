"""Children with a deadline: what the tests of `os.fork` share."""

from __future__ import annotations

import os
import signal
import sys
import time
import traceback
from collections.abc import Callable

SECONDS = 120.0


def exit_code(pid: int, seconds: float = SECONDS) -> int:
    """The exit code of a child; one that has not ended in time is killed, and that is a failure."""
    deadline = time.monotonic() + seconds
    while True:
        done, status = os.waitpid(pid, os.WNOHANG)
        if done:
            return os.waitstatus_to_exitcode(status)
        if time.monotonic() > deadline:
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)
            raise AssertionError(f"the child was still running after {seconds:g} s")
        time.sleep(0.002)


def in_child(body: Callable[[], None], seconds: float = SECONDS) -> None:
    """Runs `body()` in a forked child; AssertionError if it raises or does not end in time."""
    pid = os.fork()
    if pid == 0:
        code = 1
        try:
            body()
            code = 0
        except BaseException:
            traceback.print_exc(file=sys.stderr)
        finally:
            os._exit(code)
    code = exit_code(pid, seconds)
    assert code == 0, f"the child ended with {code}"
