"""What memory designs share: derived entries by session, windows kept or dropped, segments, extraction."""
