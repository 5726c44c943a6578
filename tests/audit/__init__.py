"""The audit: what we depend on is what we say, locked and licensed, and nothing secret is in the repository."""
