"""Workers are killed with SIGKILL at random times. Nothing is lost, nothing is done twice."""

from __future__ import annotations

import os
from random import Random

import pytest

import holdfast
from tests.crash.processes import assert_everything_was_done_once, finish, kill_after, running_program
from tests.crash.program import BATCH, parcel_documents, parcels, prepare

ROUNDS = int(os.environ.get("HOLDFAST_CRASH_ROUNDS", "20"))
"""How many kills a test makes. Set the variable higher for a long run."""

EACH = 25
"""How many documents are submitted before every kill, so that workers always have something to do."""

pytestmark = pytest.mark.timeout(100 + 5 * ROUNDS)
chance = Random(20241115)


def test_a_worker_that_is_killed_again_and_again_loses_nothing_and_repeats_nothing(url):
    with holdfast.open(url) as store:
        prepare(store)
        for number in range(ROUNDS):
            documents = parcel_documents(number * EACH, (number + 1) * EACH)
            holdfast.submit(parcels, store, batch=BATCH, documents=documents)
            with running_program("drain", url, 4) as worker:
                kill_after(worker, chance.uniform(0, 0.15))
            assert store.balance("parcels").balances
        with running_program("drain", url, 4) as worker:
            finish(worker)
        assert_everything_was_done_once(store, ROUNDS * EACH)


def test_a_worker_continues_while_another_is_killed_again_and_again(url):
    count = 50 * max(ROUNDS // 3, 6)
    with holdfast.open(url) as store:
        prepare(store)
        holdfast.submit(parcels, store, batch=BATCH, documents=parcel_documents(0, count))
        with running_program("drain", url, 2) as steady:
            for _ in range(max(ROUNDS // 3, 6)):
                with running_program("drain", url, 2) as unlucky:
                    kill_after(unlucky, chance.uniform(0, 0.1))
            finish(steady)
        assert_everything_was_done_once(store, count)


def test_a_submit_that_was_killed_can_be_repeated(url):
    with holdfast.open(url) as store:
        prepare(store)
        with running_program("submit", url, 3000, 2500) as submitting:
            assert submitting.wait(60) == -9
        half = store.balance("parcels")
        assert half.balances
        assert half.expected == 2000  # two slices of a thousand; the third was not complete
        result = holdfast.submit(parcels, store, batch=BATCH, documents=parcel_documents(0, 3000))
        assert (result.new, result.unchanged) == (1000, 2000)
        assert store.balance("parcels") == holdfast.Balance(3000, waiting=3000)
