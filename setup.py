"""The accelerator of the kernel transport: optional, an install without a C compiler reads in Python."""

import sys

from setuptools import Extension, setup

setup(
    ext_modules=[Extension("loadgen.drive.kernel._reader", ["loadgen/drive/kernel/_reader.c"], optional=True)]
    if sys.platform == "linux"
    else []
)
