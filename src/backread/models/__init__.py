"""Models behind protocols: embedders and chat models, their clients and their weights."""
