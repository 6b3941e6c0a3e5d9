"""For the whole suite: with SPECLOAD_NO_SKIP=1 (CI) a skipped test fails the run; the command line in this process."""

import contextlib
import io
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

# A suite starts hundreds of interpreters: none of them should compile what another has compiled.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
sys.dont_write_bytecode = False


@pytest.hookimpl(trylast=True)
def pytest_sessionfinish(session: pytest.Session) -> None:
    reporter = session.config.pluginmanager.get_plugin("terminalreporter")
    skipped = reporter.stats.get("skipped", []) if reporter is not None else []
    if skipped and os.environ.get("SPECLOAD_NO_SKIP") == "1":
        reporter.write_line(f"{len(skipped)} skipped, and SPECLOAD_NO_SKIP=1 allows none", red=True)
        session.exitstatus = pytest.ExitCode.TESTS_FAILED


@pytest.fixture
def specload(monkeypatch: pytest.MonkeyPatch) -> Callable[..., subprocess.CompletedProcess[str]]:
    """specload(*args, cwd=None): the entry point without a process of its own; exit code and both outputs."""
    from loadgen.cli import main

    monkeypatch.setenv("COLUMNS", "200")

    def run(*args: str | Path, cwd: Path | None = None) -> subprocess.CompletedProcess[str]:
        command = ["specload", *map(str, args)]
        wrote = io.BytesIO(), io.BytesIO()
        out, err = (io.TextIOWrapper(raw, encoding="utf-8") for raw in wrote)
        with (
            monkeypatch.context() as patched,
            contextlib.chdir(cwd or os.curdir),
            contextlib.redirect_stdout(out),
            contextlib.redirect_stderr(err),
        ):
            patched.setattr(sys, "argv", command)
            with pytest.raises(SystemExit) as ended:
                main()
            out.flush()
            err.flush()
        code = ended.value.code
        assert isinstance(code, int)
        return subprocess.CompletedProcess(command, code, wrote[0].getvalue().decode(), wrote[1].getvalue().decode())

    return run
