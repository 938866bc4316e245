"""LazyMem: retrieve broadly, then keep and compress only what the question needs."""
