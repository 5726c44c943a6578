"""Read the text of files, page by page: file type, parsers, OCR and limits."""
