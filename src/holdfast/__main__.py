"""Lets `python -m holdfast` be the command line."""

from holdfast.cli import main

main()
