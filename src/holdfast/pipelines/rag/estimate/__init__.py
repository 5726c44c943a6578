"""Estimate what an ingest will do and cost."""
