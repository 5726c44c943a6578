"""Collections: the library, settings, status and maintenance."""
