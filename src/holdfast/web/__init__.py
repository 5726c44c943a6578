"""Document search over HTTP. Needs the extra `web`."""
