"""`python -m loadgen` is `specload`."""

from loadgen.cli import main

main()
