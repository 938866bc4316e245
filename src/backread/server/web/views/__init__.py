"""What can be looked at, one module for each view: request -> `Memory` -> template."""
