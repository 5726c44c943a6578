"""Deaths: workers that are killed, stopped, or die of what a document does to them."""

from __future__ import annotations

from tests.faults.cases import case, require
from tests.faults.laboratory import Bench

GREEDY = 200 << 20
"""Who takes more than this is killed, as the kernel does when memory runs out."""


@case("kill", "workers that are killed at any moment, while people decide, lose nothing and repeat nothing")
def kill(bench: Bench) -> str:
    with bench.lab() as lab:
        with lab.workers(3) as fleet:
            for _ in bench.times(20):
                lab.submit(25)
                lab.decide()
                lab.wait(0.1, 0.6)
                fleet.kill_one(lab.chance)
            lab.settle()
        return f"{fleet.ended_with[-9]} workers killed, {lab.done()} documents done"
