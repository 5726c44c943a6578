"""Explain why a document or a batch does not go on, and what a person can do."""
