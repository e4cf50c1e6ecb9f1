"""Certificates of one experiment: an authority that exists in memory only, and what it signs.

Dask does not look at the name in a certificate: who has one of this authority may work for it. So
the authority's key is forgotten when the last certificate is signed, and nobody else has one.
"""

from __future__ import annotations

import datetime
from dataclasses import dataclass

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from pgdyno.clock import read_pair

# A clock of a host may be wrong by this much.
_LENIENCE = datetime.timedelta(days=1)
_VALID = datetime.timedelta(days=30)


@dataclass(frozen=True, slots=True)
class Identity:
    """A certificate and its key, as PEM."""

    certificate: str
    key: str

    def __repr__(self) -> str:
        return "Identity()"


@dataclass(frozen=True, slots=True)
class Identities:
    """The certificate of the authority, our own identity, and that of each host."""

    authority: str
    own: Identity
    hosts: tuple[Identity, ...]


def identities(host_names: tuple[str, ...]) -> Identities:
    """Make an authority and let it sign a certificate for us and for each host."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = _name("pgdyno experiment")
    usage = x509.BasicConstraints(ca=True, path_length=0)
    authority = _builder(name, name, key).add_extension(usage, critical=True)
    signed = authority.sign(key, hashes.SHA256())

    def identity(common_name: str) -> Identity:
        own_key = ec.generate_private_key(ec.SECP256R1())
        usage = x509.BasicConstraints(ca=False, path_length=None)
        builder = _builder(_name(common_name), name, own_key).add_extension(usage, critical=True)
        pem = serialization.Encoding.PEM
        secret = own_key.private_bytes(
            pem, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
        )
        certificate = builder.sign(key, hashes.SHA256()).public_bytes(pem)
        return Identity(certificate.decode(), secret.decode())

    return Identities(
        signed.public_bytes(serialization.Encoding.PEM).decode(),
        identity("pgdyno lab"),
        tuple(identity(name) for name in host_names),
    )


def _name(common_name: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, common_name[:64])])


def _builder(
    subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePrivateKey
) -> x509.CertificateBuilder:
    now = datetime.datetime.fromtimestamp(read_pair().unix_ns / 1e9, datetime.UTC)
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - _LENIENCE)
        .not_valid_after(now + _VALID)
    )
