"""Fuzz targets, one module for each kind of input. The name of a target is its module and its function."""
