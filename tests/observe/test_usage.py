"""Memory and CPU of real processes."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator

import pytest

from loadgen.observe.usage import ProcessReader
from server_adapters.telemetry import Look

#: A parent that holds 64 MiB and has a child that burns CPU until told to go on; the parent outlives it.
CHILD = """
import time
while time.process_time() < 0.2: pass
print("burnt", flush=True); input()
"""
PARENT = f"""
import subprocess, sys
held = bytearray(64 * 2**20)
held[::4096] = b"x" * len(held[::4096])
child = subprocess.Popen([sys.executable, "-c", {CHILD!r}], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
child.stdout.readline(); print("burnt", flush=True)
sys.stdin.readline(); child.communicate(b"go\\n"); print("alone", flush=True)
sys.stdin.readline()
"""


def value(look: Look, name: str) -> float:
    return next(r.value for r in look.readings if r.name == name)


@pytest.fixture
def family() -> Iterator[subprocess.Popen[str]]:
    made = subprocess.Popen([sys.executable, "-c", PARENT], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    try:
        yield made
    finally:
        made.kill()
        made.communicate()


def test_children_count_and_what_an_ended_one_had_used_is_kept(family: subprocess.Popen[str]) -> None:
    assert family.stdin is not None
    assert family.stdout is not None
    family.stdout.readline()
    reader = ProcessReader(family.pid)
    both = reader.read()
    assert value(both, "process_rss_bytes") > 64 * 2**20
    assert value(both, "process_cpu_seconds") >= 0.19  # the kernel counts in hundredths
    family.stdin.write("go\n")
    family.stdin.flush()
    family.stdout.readline()
    alone = reader.read()
    assert value(alone, "process_cpu_seconds") >= value(both, "process_cpu_seconds")
    assert 64 * 2**20 < value(alone, "process_rss_bytes") < value(both, "process_rss_bytes")


def test_a_process_that_has_ended_is_absent_not_0(family: subprocess.Popen[str]) -> None:
    reader = ProcessReader(family.pid)
    assert reader.read().readings
    family.kill()
    family.wait()
    gone = reader.read()
    assert gone.readings == ()
    assert gone.absent["process_rss_bytes"] == f"there is no process {family.pid} on this machine (any more)"
