"""Hostile input: whatever comes in, what comes of it is a value or an error of our own with a sentence.

`python -m tests.fuzz` feeds every target for as long as it is told. The tests here do the same for a moment each,
always with the same inputs.
"""
