"""The page at `/`: the record, search, answers and what was built, for people, as HTML made on the server."""
