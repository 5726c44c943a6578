"""Ready pipelines: used as they are, or as a beginning."""
