"""The package on the package index: its name, its installed version, and the command that installs an extra."""

from __future__ import annotations

DISTRIBUTION = "holdfast-pipelines"
"""The name on the package index, where `holdfast` is another project. Import and command are called `holdfast`."""


def installed_version() -> str:
    """Return the version of holdfast that is installed."""
    from importlib.metadata import version  # slow to import: a sixth of the time of `import holdfast`

    return version(DISTRIBUTION)


def install_command(extra: str) -> str:
    """Return the command that installs an extra, for messages about a missing package."""
    return f"pip install '{DISTRIBUTION}[{extra}]'"
