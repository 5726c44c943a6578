"""Lets `python -m holdfast.cli` be the command line: worker processes are started so."""

from holdfast.cli import main

main()
