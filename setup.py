"""The C reader of the kernel transport: optional, an install without a C compiler reads in Python."""

import sys

from setuptools import Extension, setup

KERNEL = "loadgen/drive/kernel"
READER = Extension(
    "loadgen.drive.kernel._reader",
    [f"{KERNEL}/_reader.c", f"{KERNEL}/_stream.c"],
    depends=[f"{KERNEL}/_stream.h"],
    optional=True,
)

setup(ext_modules=[READER] if sys.platform == "linux" else [])
