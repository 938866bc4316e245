"""Where a server may listen. That it serves and ends is tested with real processes."""

from __future__ import annotations

import socket

import pytest
from rest_samples import KEYS

from backread.errors import InvalidInputError
from backread.server.running import address, listen


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "192.0.2.1", "example.com", ""])
def test_without_keys_nobody_else_can_reach_it(host: str) -> None:
    with pytest.raises(InvalidInputError, match="without keys") as raised:
        listen(host, 0, None)
    assert raised.value.hint == "give --keys FILE, or listen on 127.0.0.1"


@pytest.mark.integration
class TestListening:
    def test_a_free_port(self) -> None:
        with listen("127.0.0.1", 0, None) as listening:
            port = listening.getsockname()[1]
            assert address(listening) == f"http://127.0.0.1:{port}"
            assert (port > 0, listening.proto) == (True, socket.IPPROTO_TCP)
            with socket.create_connection(("127.0.0.1", port)):
                accepted, _ = listening.accept()
                accepted.close()
            with pytest.raises(InvalidInputError, match=f"127.0.0.1:{port}: Address already in use"):
                listen("127.0.0.1", port, None)

    def test_with_keys_others_can_reach_it(self) -> None:
        with listen("0.0.0.0", 0, KEYS) as listening:
            assert address(listening).startswith("http://0.0.0.0:")

    def test_ipv6(self) -> None:
        if not socket.has_ipv6:
            pytest.skip("no IPv6")
        try:
            listening = listen("::1", 0, None)
        except InvalidInputError as error:
            pytest.skip(str(error))
        with listening:
            assert address(listening) == f"http://[::1]:{listening.getsockname()[1]}"

    @pytest.mark.parametrize("port", [-1, 65536])
    def test_ports_that_do_not_exist(self, port: int) -> None:
        with pytest.raises(InvalidInputError, match=f"{port} is no port"):
            listen("127.0.0.1", port, None)
