"""The C of our own: the reader of the kernel transport, plain blocks and payloads. Optional: an install without a C
compiler reads in Python."""

import sys

from setuptools import Extension, setup

KERNEL = "loadgen/drive/kernel"
READER = Extension(
    "loadgen.drive.kernel._reader",
    [f"{KERNEL}/_reader.c", f"{KERNEL}/_stream.c"],
    depends=[f"{KERNEL}/_stream.h"],
    optional=True,
)

BLOCKS = Extension("loadgen.drive._sse", ["loadgen/drive/_sse.c"], optional=True)
PAYLOADS = Extension(
    "server_adapters._plain",
    ["server_adapters/_plain.c", "server_adapters/_json.c"],
    depends=["server_adapters/_json.h"],
    optional=True,
)

setup(ext_modules=[READER, BLOCKS, PAYLOADS] if sys.platform == "linux" else [BLOCKS, PAYLOADS])
