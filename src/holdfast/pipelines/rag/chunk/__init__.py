"""Split pages into chunks."""
