"""What is indexed of a turn, and how a term becomes a number in the file."""

from __future__ import annotations

import hashlib

__all__ = ["TermHasher", "indexed_text", "passage_header", "passage_text"]


def passage_header(speaker: str | None) -> str:
    """What precedes every passage of a turn, so that each one says who speaks; "" when no name is known."""
    return f"{speaker}: " if speaker else ""


def indexed_text(speaker: str | None, text: str, caption: str | None) -> str:
    """The words of a turn that search sees: speaker, text, caption.

    The official LoCoMo evaluation shows a turn to its models with the same three parts.
    """
    return passage_header(speaker) + passage_text(text, caption)


def passage_text(text: str, caption: str | None) -> str:
    """What of a turn is cut into passages: its text, and the caption of an image where there is one."""
    return f"{text} [image: {caption}]" if caption else text


class TermHasher:
    """64-bit hashes of terms, salted by a secret of the store and by user and corpus.

    The file holds no words but those of the record, and equal words of two users don't look alike. 64 bits, because
    32 collide within one large user.
    """

    def __init__(self, secret: bytes, user_id: bytes, corpus: str) -> None:
        scope = hashlib.blake2b(user_id + b"\0" + corpus.encode("utf-8", "surrogatepass"), key=secret, digest_size=16)
        self._key = scope.digest()

    def __call__(self, term: str) -> int:
        """Hash of a term as a signed 64-bit integer."""
        data = term.encode("utf-8", "surrogatepass")
        return int.from_bytes(hashlib.blake2b(data, key=self._key, digest_size=8).digest(), "big", signed=True)
