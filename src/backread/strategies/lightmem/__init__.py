"""LightMem: compressed turns, gathered by topic, become facts that a search finds."""
