"""Document search: from files to answers, resumable at every page."""
