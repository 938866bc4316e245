"""The stated list of English function words: flagged by analysis, never dropped."""

from __future__ import annotations

__all__ = ["STOP_WORDS"]

_ARTICLES_AND_LINKS = """
a an the this that these those such and or but nor so yet if then else than because while although though unless until
whether as of at by for with without within about against between among into onto upon through during before after above
below to from up down in out on off over under again further once here there per via
"""

_PRONOUNS = """
i me my mine myself we us our ours ourselves you your yours yourself yourselves he him his himself she her hers herself
it its itself they them their theirs themselves one ones
someone something anyone anything everyone everything nobody nothing
"""

_VERBS = """
am is are was were be been being have has had having do does did doing done can could may might must shall should will
would ought
"""

_QUESTIONS_AND_FILLERS = """
what when where which who whom whose why how whatever whenever wherever whichever whoever
all any both each either neither few more most much many other others another some no not only own same too very just
also ever still even please tell
"""

_CONTRACTIONS = """
i'm i've i'd i'll you're you've you'd you'll he's he'd he'll she's she'd she'll it's it'd it'll we're we've we'd we'll
they're they've they'd they'll that's that'd that'll there's there'd there'll here's what's what're what'd
what'll who's who're who'd who'll where's where'd when's why's how's how'd let's y'all
ain't aren't can't couldn't didn't doesn't
don't hadn't hasn't haven't isn't mayn't mightn't mustn't needn't oughtn't shan't shouldn't wasn't weren't won't
wouldn't cannot
"""

STOP_WORDS: frozenset[str] = frozenset(
    " ".join((_ARTICLES_AND_LINKS, _PRONOUNS, _VERBS, _QUESTIONS_AND_FILLERS, _CONTRACTIONS)).split()
)
"""English function words as analysis writes them (lower case, straight apostrophe): question words, auxiliaries,
pronouns, prepositions, contractions. Some can also name a thing ("may"), so stop words are flagged, never dropped."""
