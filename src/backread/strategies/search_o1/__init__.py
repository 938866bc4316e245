"""Search-o1: a model reasons, searches when it lacks something, and reads what was found in a call of its own."""
