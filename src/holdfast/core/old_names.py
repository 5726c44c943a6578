"""Old names of public things: they still work, with a warning that says the new name."""

from __future__ import annotations

from collections.abc import Mapping
from warnings import warn


def new_name(module: str, name: str, old_names: Mapping[str, str]) -> str:
    """Return the present name of an attribute that a module does not have. Call it in the module's `__getattr__`.

    Args:
        module: The `__name__` of the module.
        name: The attribute that was asked for.
        old_names: The present name of each old one.

    Raises:
        AttributeError: The name is not an old name.
    """
    if name not in old_names:
        raise AttributeError(f"module {module!r} has no attribute {name!r}")
    warn(f"{module}.{name} is now called {old_names[name]}", DeprecationWarning, stacklevel=3)
    return old_names[name]
