"""One module a family of inputs. A target's name is its module and its function."""
