"""Agent frameworks over `Memory`: each a module with its own extra, imported by nothing else in the package."""
