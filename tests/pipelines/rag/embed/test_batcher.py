"""Texts of many callers share requests. A bad text does not affect the others."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from holdfast import Reject
from holdfast.pipelines.rag.embed.batcher import Batcher, BatchLimits, FailedRequest, RejectedText
from holdfast.pipelines.rag.embed.remote import OpenAI
from holdfast.pipelines.rag.http_errors import ServiceError
from tests.support.services.embeddings import LONGEST, POISON, OpenAIService


class Sent:
    """A fake service: the vector of a text is its length. Some texts are refused, as they say."""

    def __init__(self) -> None:
        self.requests: list[list[str]] = []
        self.under_way = self.most_under_way = 0
        self.down = False

    async def __call__(self, texts: Sequence[str]) -> list[np.ndarray]:
        self.requests.append(list(texts))
        self.under_way += 1
        self.most_under_way = max(self.most_under_way, self.under_way)
        await asyncio.sleep(0)
        self.under_way -= 1
        if self.down or "fault" in texts:
            raise FailedRequest(ServiceError("it fell over"))
        if "bad" in texts:
            raise RejectedText(Reject("it is bad"))
        return [np.array([len(text)]) for text in texts]


def gather(sent: Sent, callers: Sequence[Sequence[str]], limits: BatchLimits) -> list[object]:
    async def all_of_them() -> list[object]:
        batcher = Batcher(sent, limits)
        return await asyncio.gather(*(batcher.embed(texts) for texts in callers), return_exceptions=True)

    return asyncio.run(all_of_them())


def lengths(answer: object) -> list[int]:
    assert isinstance(answer, list), answer
    return [int(vector[0]) for vector in answer]


def test_callers_share_a_request_and_each_gets_its_own_vectors() -> None:
    sent = Sent()
    answers = gather(sent, [["a", "bb"], ["ccc"], ["dddd", "e"]], BatchLimits())
    assert [lengths(one) for one in answers] == [[1, 2], [3], [4, 1]]
    assert sent.requests == [["a", "bb", "ccc", "dddd", "e"]]


def test_a_request_has_no_more_texts_than_allowed() -> None:
    sent = Sent()
    gather(sent, [["a"] * 7], BatchLimits(inputs=3))
    assert [len(one) for one in sent.requests] == [3, 3, 1]


def test_a_request_has_no_more_characters_than_allowed_unless_one_text_has() -> None:
    sent = Sent()
    gather(sent, [["aaaa", "bbbb", "c", "d" * 50, "e"]], BatchLimits(characters=10))
    assert sent.requests == [["aaaa", "bbbb", "c"], ["d" * 50], ["e"]]


def test_no_more_requests_run_at_once_than_allowed() -> None:
    sent = Sent()
    gather(sent, [["a"]] * 20, BatchLimits(inputs=1, concurrency=3))
    assert sent.most_under_way == 3


def test_texts_that_wait_for_a_slot_are_sent_together() -> None:
    sent = Sent()

    async def while_one_is_under_way() -> None:
        batcher = Batcher(sent, BatchLimits(inputs=4, concurrency=1, linger=0))
        first = asyncio.create_task(batcher.embed(["a"] * 4))
        await asyncio.sleep(0)
        await asyncio.gather(first, *(batcher.embed(["b"]) for _ in range(3)))

    asyncio.run(while_one_is_under_way())
    assert sent.requests == [["a"] * 4, ["b"] * 3]


def test_a_bad_text_fails_its_caller_alone() -> None:
    sent = Sent()
    answers = gather(sent, [["a", "bb"], ["bad"], ["ccc"], ["bad", "x"]], BatchLimits())
    assert [lengths(answers[0]), lengths(answers[2])] == [[1, 2], [3]]
    assert isinstance(answers[1], Reject)
    assert isinstance(answers[3], Reject)


def test_a_text_that_makes_the_service_fail_is_found() -> None:
    sent = Sent()
    answers = gather(sent, [[f"text {number}"] for number in range(31)] + [["fault"]], BatchLimits())
    assert isinstance(answers[-1], ServiceError)
    assert [lengths(one)[0] for one in answers[:-1]] == [len(f"text {number}") for number in range(31)]


def test_a_service_that_is_down_is_not_called_for_every_text() -> None:
    sent = Sent()
    sent.down = True
    answers = gather(sent, [[f"text {number}"] for number in range(64)], BatchLimits())
    assert all(isinstance(one, ServiceError) for one in answers)
    assert len(sent.requests) < 32


def test_a_cancelled_caller_does_not_affect_the_others() -> None:
    sent = Sent()

    async def one_leaves() -> list[int]:
        batcher = Batcher(sent, BatchLimits())
        leaving = asyncio.create_task(batcher.embed(["a"]))
        staying = asyncio.create_task(batcher.embed(["bb"]))
        await asyncio.sleep(0)
        leaving.cancel()
        return lengths(await staying)

    assert asyncio.run(one_leaves()) == [2]
    assert sent.requests == [["bb"]]


def test_threads_share_requests_too(service: OpenAIService) -> None:
    made = OpenAI(service.model, limits=BatchLimits(inputs=8, linger=5.0))
    begin = threading.Barrier(8)

    def ask(number: int) -> np.ndarray:
        begin.wait()
        return made.embed_query(f"text {number}")

    with ThreadPoolExecutor(8) as pool:
        rows = list(pool.map(ask, range(8)))
    made.close()
    np.testing.assert_allclose(rows, service.hashing.embed([f"text {number}" for number in range(8)]), atol=1e-6)
    assert len(service.requests) == 1


def test_a_too_long_text_is_rejected_alone_by_a_real_service(service: OpenAIService, embedder: OpenAI) -> None:
    async def five() -> list[object]:
        texts = (["short"], ["x" * (LONGEST + 1)], [POISON], ["also short", "fine"], ["half a sign: \ud83d"])
        return await asyncio.gather(*(embedder.embed_async(one) for one in texts), return_exceptions=True)

    first, second, third, fourth, fifth = asyncio.run(five())
    assert isinstance(first, np.ndarray)
    assert isinstance(second, Reject)
    assert isinstance(third, ServiceError)
    assert isinstance(fourth, np.ndarray)
    assert isinstance(fifth, Reject)


def test_an_unknown_error_reaches_every_caller() -> None:
    async def broken(texts: Sequence[str]) -> list[np.ndarray]:
        raise RuntimeError("nobody expected this")

    async def two() -> list[object]:
        batcher = Batcher(broken, BatchLimits())
        return await asyncio.gather(batcher.embed(["a"]), batcher.embed(["b"]), return_exceptions=True)

    assert all(isinstance(one, RuntimeError) for one in asyncio.run(two()))


def test_a_wrong_number_of_vectors_is_an_error() -> None:
    async def short(texts: Sequence[str]) -> list[np.ndarray]:
        return []

    async def one() -> None:
        await Batcher(short, BatchLimits()).embed(["a"])

    with pytest.raises(ValueError, match="zip"):
        asyncio.run(one())
