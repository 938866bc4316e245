"""Retrieval without an LLM: one algorithm a file, with its paper."""
