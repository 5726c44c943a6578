"""The pure part: what pipelines, checkpoints and moves are. No I/O, no clock, no thread, no SQL."""
