"""The audit: dependencies are declared, locked and licensed, and the repository has no secrets."""
