"""A certificate of a test's own, for TLS on loopback."""

from __future__ import annotations

import shutil
import ssl
import subprocess
from pathlib import Path

import pytest


def make_certificate(folder: Path) -> tuple[Path, Path]:
    """Paths of a certificate for 127.0.0.1 and of its key; skips where openssl is missing."""
    openssl = shutil.which("openssl")
    if openssl is None:
        pytest.skip("openssl is not installed")
    certificate, key = folder / "certificate.pem", folder / "key.pem"
    command = [
        openssl, "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1",
        "-nodes", "-days", "2", "-subj", "/CN=test", "-addext", "subjectAltName=IP:127.0.0.1",
        "-out", str(certificate), "-keyout", str(key),
    ]  # fmt: skip
    subprocess.run(command, check=True, capture_output=True)  # noqa: S603 - fixed arguments
    return certificate, key


def trusting(certificate: Path) -> ssl.SSLContext:
    """Settings of a client that trusts this certificate alone."""
    return ssl.create_default_context(cafile=str(certificate))
