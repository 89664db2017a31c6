"""TLS of servers: required wherever another machine can reach them."""

from __future__ import annotations

import ipaddress
import ssl
from pathlib import Path

from traces.files.errors import FileError, reason


def is_loopback(host: str) -> bool:
    """Return whether only this machine reaches an address."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def tls_of(
    host: str, certificate: Path | None, key: Path | None, error: type[ValueError] = FileError
) -> ssl.SSLContext | None:
    """Return the TLS settings of a server; None for plain loopback, `error` if TLS is needed."""
    if certificate is None:
        if key is not None:
            raise error(f"--tls-key {key}: --tls-certificate is needed, too")
        if not is_loopback(host):
            raise error(f"{host!r}: beyond loopback, --tls-certificate is needed")
        return None
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    try:
        # An empty password: a key that needs one is refused, where the library would ask for it.
        context.load_cert_chain(certificate, key, password="")
    except OSError as fault:
        words = fault.reason if isinstance(fault, ssl.SSLError) else reason(fault)
        raise error(f"{certificate}: no certificate with its key: {words}") from fault
    return context
