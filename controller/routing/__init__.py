"""Routing policies: each module is one, a pure function from flows to their paths."""
