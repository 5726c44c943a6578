"""Fuzzing: whatever the input is, the result is a value or one of our errors with a message.

`python -m tests.fuzz` feeds random inputs to every target for a given time. The tests here feed a few inputs to each
target, always the same ones.
"""
