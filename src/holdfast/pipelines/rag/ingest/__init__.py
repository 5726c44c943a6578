"""Find the changed files of a source, and submit, rename or remove their documents."""
