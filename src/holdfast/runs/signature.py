"""Ed25519 signatures of a run's manifest: who holds the public key sees that nothing of the run was changed."""

from collections.abc import Callable, Iterator
from pathlib import Path

from holdfast.errors import InvalidArgument, explain_missing_packages
from holdfast.runs.folder import SIGNATURE, Sign
from holdfast.runs.manifest import MANIFEST

Agrees = Callable[[bytes, bytes], bool]
"""Whether a signature is one of a manifest."""


def signer(key: Path) -> Sign:
    """What signs with the private key in a PEM file; a file without one is refused now."""
    with explain_missing_packages():
        from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
        from cryptography.hazmat.primitives.serialization import load_pem_private_key
    found = _read(key, "private", lambda content: load_pem_private_key(content, password=None))
    if not isinstance(found, Ed25519PrivateKey):
        raise _no_key(key, "private", type(found).__name__)
    return lambda manifest: _written(found.sign(manifest))


def agreement(key: Path) -> Agrees:
    """What compares with the public key in a PEM file; a file without one is refused now."""
    with explain_missing_packages():
        from cryptography.exceptions import InvalidSignature
        from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
        from cryptography.hazmat.primitives.serialization import load_pem_public_key
    found = _read(key, "public", load_pem_public_key)
    if not isinstance(found, Ed25519PublicKey):
        raise _no_key(key, "public", type(found).__name__)

    def agrees(manifest: bytes, signature: bytes) -> bool:
        try:
            plain = bytes.fromhex(signature.decode("ascii"))
            found.verify(plain, manifest)
        except (ValueError, InvalidSignature):
            return False
        return signature == _written(plain)

    return agrees


def signature_problems(run: Path, agrees: Agrees) -> Iterator[str]:
    """Whether the manifest of a run is signed, with the right key."""
    for name in (MANIFEST, SIGNATURE):
        if not (run / name).is_file():
            yield f"the run is not signed: {name} is missing"
            return
    if not agrees((run / MANIFEST).read_bytes(), (run / SIGNATURE).read_bytes()):
        yield f"{SIGNATURE} is no signature of {MANIFEST} with this key"


def _written(signature: bytes) -> bytes:
    return signature.hex().encode() + b"\n"


def _read(key: Path, kind: str, load: Callable[[bytes], object]) -> object:
    try:
        return load(key.read_bytes())
    except OSError as error:
        raise InvalidArgument(
            f"{key} cannot be read ({error}); expected a PEM file with a {kind} Ed25519 key"
        ) from error
    except Exception as error:  # cryptography has many, and TypeError for a key with a password
        raise _no_key(key, kind, str(error)) from error


def _no_key(key: Path, kind: str, got: str) -> InvalidArgument:
    return InvalidArgument(
        f"{key} must be a PEM file with a {kind} Ed25519 key that has no password, got: {got}. Make one with: openssl genpkey "
        f"-algorithm ed25519 -out key.pem, and its public half with: openssl pkey -in key.pem -pubout -out public.pem"
    )
