"""Pure functions on text: analysis for search, passages, excerpts, fences, token counts, times, the BM25 formula."""
