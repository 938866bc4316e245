"""Naive RAG: the best units of the record, shown in the order they were said."""
