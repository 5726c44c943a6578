"""The short path of `holdfast.pipelines.files`: load record files into tables."""

from holdfast.pipelines.files import *  # noqa: F403 - the names are listed once, in __all__ there
from holdfast.pipelines.files import __all__  # noqa: F401
