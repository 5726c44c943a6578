"""Where the tests begin to search for mutants that take long to find. `make mutants` searches from the start.

Each seed is one that finds its mutant. If a change of the engine or of the simulator makes it miss, the test goes on to
the seeds after it.
"""

QUICK_SEEDS = {
    "a changed document reuses items of the old content": 68,
    "a clock decides which plan was declared last": 89,
    "a document that continues under another plan counts as done under it": 35,
    "a document that was not running waits after the death of its worker": 75,
    "a document whose body runs is not marked": 992,
    "a part of a stream is committed twice": 32,
    "a part of a stream is committed without its effect": 32,
    "a result that came too late is used": 98,
    "a step admits one document more than its limit": 35,
    "a step that ends without an effect undoes nothing": 6099,
    "a withdrawn document goes on where it was, without its rows": 381,
    "a withdrawn document is undone again when it is withdrawn again": 228,
    "a worker may commit to a cancelled document": 166,
    "a worker rewinds a document that another holds": 228,
    "a worker that stops does not release its documents": 47,
    "a worker that was given up does not register again": 102,
    "a worker with a suspect claims other documents": 366,
    "crashes are not reset by progress": 35,
    "documents that left a step count as inside it": 41,
    "in SQL: a rewind forgets which generation wrote rows": 36,
    "in SQL: a worker releases a document that it lost": 539,
    "in SQL: priorities are ignored": 102,
    "in SQL: the fence is not checked": 1057,
    "in SQL: the heartbeat of a worker that was given up returns true": 29,
    "in SQL: the number of moves is not checked": 1100,
    "mended items are still listed as failed": 38,
    "priorities are ignored": 80,
    "results that are gone are redone without end": 65,
    "the fence is not checked": 228,
    "the heartbeat of a worker that was given up returns true": 102,
    "the number of moves is not checked": 4080,
    "the second half of a failed window lacks an item": 344,
    "work of a step with other settings is not stale": 116,
}
