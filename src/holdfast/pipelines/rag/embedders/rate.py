"""What a service allows."""

from __future__ import annotations

from msgspec import Struct


class Rate(Struct, frozen=True):
    """What a service allows in a minute. What is not said is not limited."""

    requests: float | None = None
    texts: float | None = None
    tokens: float | None = None

    def __post_init__(self) -> None:
        if any(limit is not None and limit <= 0 for limit in (self.requests, self.texts, self.tokens)):
            raise ValueError("a rate is more than nothing a minute")

    def seconds(self, *, texts: int, tokens: int) -> float:
        """Gives how long a request uses the service up: the longest of what its limits say."""
        costs = ((self.requests, 1), (self.texts, texts), (self.tokens, tokens))
        return max((60.0 * count / limit for limit, count in costs if limit), default=0.0)
