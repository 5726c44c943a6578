"""What commands print: tables, progress, reports."""
