"""Full context: the whole history, as much of it as fits."""
