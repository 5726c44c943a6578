"""Every target, for a moment, always with the same inputs. `make fuzz` goes on with others."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.fuzz.drivers import some_by_shape, warm
from tests.fuzz.feeding import Feeder
from tests.fuzz.target import every_target

TARGETS = every_target()


@pytest.fixture(autouse=True, scope="module")
def _room(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """What targets write goes to where tests write."""
    before, tempfile.tempdir = tempfile.tempdir, str(tmp_path_factory.mktemp("fuzz"))
    yield
    tempfile.tempdir = before


@pytest.mark.parametrize("name", TARGETS)
def test_whatever_comes_in_is_handled(name: str) -> None:
    target = TARGETS[name]
    feeder = Feeder(target)
    warm(target, feeder)
    for one in target.seeds:
        feeder.feed(one)
    some_by_shape(target, feeder, number=20261116, most=target.moment)
    for finding in feeder.told.findings.values():
        pytest.fail(f"{target.expects}\nBut not for {finding.shown[:2000]}\n{finding.story}")
    assert feeder.told.inputs > 0


def test_every_target_says_what_may_be_expected() -> None:
    assert len(TARGETS) > 50
    for target in TARGETS.values():
        assert target.expects.endswith(".")
        assert Path(__file__).with_name("targets").joinpath(f"{target.name.partition('.')[0]}.py").exists()
