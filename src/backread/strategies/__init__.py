"""Memory designs behind one interface over the verbatim record."""
