"""LeanMem: each stretch of a conversation is kept as profile, event or record, and only events evolve."""
