"""The server: `Memory` over HTTP. A request becomes one call of `Memory`, its result the response.

Needs the extra `server`; nothing here is imported by the rest of the package, but for `backread serve`.
"""
