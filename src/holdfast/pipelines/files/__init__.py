"""Record files: load the records of CSV, JSON Lines and Parquet files into tables, each exactly once."""
