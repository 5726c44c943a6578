"""The engine: drives pipelines over stores. It knows stores only by their protocol."""
