"""Search a collection."""
