"""LightMem's offline update: each entry is compared with later ones that are like it, and a model decides what it becomes.

Released code, section "offline update" of `PAPER.md`: an entry may be updated or dropped for later entries among whose
most similar earlier ones it is. All decisions are made on one snapshot; what an update says rests on the sources of the
entry and of all entries it was compared with. An entry is compared again only when it or one of those has changed.
"""

from __future__ import annotations

import hashlib
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import batched
from typing import TYPE_CHECKING, Literal

import numpy as np
from numpy.typing import NDArray

from backread.construction.in_order import in_order
from backread.construction.prompt_files import Prompt, read_prompt
from backread.construction.sessions import together
from backread.construction.tying import tie
from backread.errors import ModelError, NotFoundError, StaleVersionError
from backread.models.base import ChatMessage, ChatModel, Embedder
from backread.models.structured import Structured, complete_as
from backread.models.usage import total
from backread.store.history import History
from backread.strategies.base import Context
from backread.strategies.lightmem.batches import Book
from backread.strategies.lightmem.building import Shelf, stands
from backread.strategies.lightmem.facts import fact_text
from backread.strategies.lightmem.settings import Settings
from backread.text.fencing import fence, quote
from backread.text.times import format_time
from backread.types import BuildReport, Degradation, Entry, EntryDraft, Source, Step, Turn, Usage

if TYPE_CHECKING:
    from backread.strategies.lightmem.replies import UpdateReply
