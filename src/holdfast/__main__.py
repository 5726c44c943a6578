"""The command line as `python -m holdfast`. `holdfast work --processes` starts worker processes with it."""

from holdfast.cli import main

main()
