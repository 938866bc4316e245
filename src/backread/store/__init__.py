"""The record: every turn verbatim in one durable store, and the indexes derived from it."""
