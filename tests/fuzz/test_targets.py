"""Every target is fed a few inputs, always the same ones. `make fuzz` feeds more."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.fuzz.drivers import feed_some_by_shape, warm_up
from tests.fuzz.runner import Feeder
from tests.fuzz.target import every_target

TARGETS = every_target()


@pytest.fixture(autouse=True, scope="module")
def _temporary_files(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Let targets write into the folder of the tests."""
    before, tempfile.tempdir = tempfile.tempdir, str(tmp_path_factory.mktemp("fuzz"))
    yield
    tempfile.tempdir = before


@pytest.mark.parametrize("name", TARGETS)
def test_every_input_is_handled(name: str) -> None:
    target = TARGETS[name]
    feeder = Feeder(target)
    warm_up(target, feeder)
    for data in target.seeds:
        feeder.feed(data)
    feed_some_by_shape(target, feeder, number=20261116, limit=target.inputs_in_tests)
    for finding in feeder.result.findings.values():
        pytest.fail(f"{target.expects}\nThis is not true for {finding.text[:2000]}\n{finding.details}")
    assert feeder.result.inputs > 0


def test_every_target_says_what_is_expected() -> None:
    assert len(TARGETS) > 50
    for target in TARGETS.values():
        assert target.expects.endswith(".")
        assert Path(__file__).with_name("targets").joinpath(f"{target.name.partition('.')[0]}.py").exists()
