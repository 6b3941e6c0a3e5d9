"""The C of our own: the reader of the kernel transport, and plain payloads. Optional: an install without a C compiler
reads in Python."""

import sys

from setuptools import Extension, setup

KERNEL = "loadgen/drive/kernel"
READER = Extension(
    "loadgen.drive.kernel._reader",
    [f"{KERNEL}/_reader.c", f"{KERNEL}/_stream.c"],
    depends=[f"{KERNEL}/_stream.h"],
    optional=True,
)

PLAIN = Extension("server_adapters._plain", ["server_adapters/_plain.c"], optional=True)

setup(ext_modules=[READER, PLAIN] if sys.platform == "linux" else [PLAIN])
