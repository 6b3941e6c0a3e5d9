"""Errors become one message and an exit code."""

from __future__ import annotations

import errno
import os
import sys
import traceback

import typer

from loadgen.cli import (  # noqa: F401  (their commands join the application)
    canary,
    comparing,
    driving,
    gating,
    reading,
    service,
    sweeping,
    watching,
)
from loadgen.cli.base import (
    Exit,
    app,
    complain,
    err,
)
from loadgen.errors import ScenarioError, SpecloadError, StorageError, TargetUnusable
from loadgen.redact import Redactor, printable

#: stdout takes no more. Files have their own errors (StorageError) for these.
_STDOUT_ERRORS = frozenset({errno.EPIPE, errno.ENOSPC, errno.EFBIG, errno.EIO})


def main() -> None:
    """Entry point: errors become one message and an exit code."""
    try:
        code = app(standalone_mode=False)
    except (typer.Abort, KeyboardInterrupt):
        complain("interrupted")
        code = Exit.INTERRUPTED
    except (ScenarioError, TargetUnusable, StorageError) as error:
        complain(str(error))
        code = Exit.TARGET if isinstance(error, TargetUnusable) else Exit.USAGE
    except SpecloadError as error:
        complain(str(error))
        code = Exit.INTERNAL
    except OSError as error:
        code = _output_ended(error) if error.errno in _STDOUT_ERRORS else _usage_or_internal(error)
    except Exception as error:
        code = _usage_or_internal(error)
    sys.exit(int(code or 0))


def _usage_or_internal(error: Exception) -> Exit:
    """typer's own usage errors know how to show themselves; anything else is ours."""
    show = getattr(error, "show", None)
    if callable(show):
        show()
        return Exit.USAGE
    trace = Redactor()("".join(traceback.format_exception(error)))
    err.print(printable(trace), markup=False, soft_wrap=True)
    complain("internal error; what was measured is kept. Please report the lines above.")
    return Exit.INTERNAL


def _output_ended(error: OSError) -> Exit:
    """Whoever closed the pipe has read what they wanted: no word about it. Nothing may be flushed at exit either."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    if error.errno != errno.EPIPE:
        complain(f"the output cannot be written: {error.strerror}")
    return Exit.INTERNAL
