"""What a scripted customer understands of a text: whether it asks for something, and for which topics. Rules, no model.

1. A text is read by sentences. They end at `?`, `!`, `;`, a line break, or a full stop before a space. Case, width and kinds of
   apostrophes do not matter.
2. A sentence asks when it ends in a question mark; begins with an imperative such as `tell` or `confirm`, with `could you` and the
   like, or with a question word and speaks to `you` (`hello`, `please`, `so` and the like before it are passed over); or holds a
   request such as `please send`, `let me know`, `tell us`, `I need your ...` or `I would like to know`.
3. A sentence of courtesy (`let me know if you have further questions`, `anything else?`, `no need to ...`) asks for nothing.
4. Lines of a list after a sentence that asks belong to it.
5. A topic is asked for when all words of one of its cues stand in one sentence that asks. Where the sentences that ask name no topic,
   the whole text is looked at: `I see two charges. Which one?` asks for the charge.
"""

import re
import unicodedata
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cache

LONGEST = 20_000
"""Characters that are read; what comes after is not."""


@dataclass(frozen=True, slots=True)
class Heard:
    """What was understood of one text."""

    asks: bool
    """It asks for something, whether or not for anything that is known."""
    topics: tuple[str, ...] = ()
    """Names of topics asked for, in the order in which they were given to `hear`."""


def hear(text: str, cues: Sequence[tuple[str, Sequence[str]]]) -> Heard:
    """Understand `text`. `cues` gives for each topic its cues, such as `which|what invoice|bill*`: words that must all be there.

    `|` separates words of which one is enough, and `*` stands for any ending.
    """
    sentences = list(_sentences(text))
    asking = list(_asking(sentences))
    if not asking:
        return Heard(False)
    words = [_words(sentence) for sentence in asking]
    found = tuple(topic for topic, known in cues if _matches(known, words))
    whole = [_words(" ".join(sentences))]
    return Heard(True, found or tuple(topic for topic, known in cues if _matches(known, whole)))


def _sentences(text: str) -> Iterable[str]:
    plain = unicodedata.normalize("NFKC", text[:LONGEST]).casefold().translate(_APOSTROPHES)
    return (sentence for found in _SENTENCE.findall(plain) if (sentence := found.strip()))


def _asking(sentences: Iterable[str]) -> Iterable[str]:
    listed = False
    for sentence in sentences:
        listed = _asks(sentence) or (listed and _LISTED.match(sentence) is not None)
        if listed:
            yield sentence


def _asks(sentence: str) -> bool:
    if _COURTESY.search(sentence):
        return False
    return sentence.endswith(_MARKS) or _OPENING.match(sentence) is not None or _REQUEST.search(sentence) is not None


def _words(sentence: str) -> tuple[str, ...]:
    return tuple(_WORD.findall(sentence))


def _matches(cues: Iterable[str], sentences: Iterable[tuple[str, ...]]) -> bool:
    return any(all(_there(slot, words) for slot in cue.split()) for words in sentences for cue in cues)


def _there(slot: str, words: tuple[str, ...]) -> bool:
    exact, beginnings = _slot(slot)
    return any(word in exact or word.startswith(beginnings) for word in words)


@cache
def _slot(slot: str) -> tuple[frozenset[str], tuple[str, ...]]:
    names = slot.split("|")
    return frozenset(name for name in names if name[-1] != "*"), tuple(name[:-1] for name in names if name[-1] == "*")


_APOSTROPHES = str.maketrans({"\u2019": "'", "\u02bc": "'", "\u00b4": "'", "`": "'", "\u00bf": " ", "\u00a1": " "})
_MARKS = ("?", "\u061f", "\u037e")
_SENTENCE = re.compile(r"(?:[^.?!;\n\u061f\u037e\u3002]|\.(?!\s|$))+[.?!;\u061f\u037e\u3002]*|[?\u061f\u037e]+")
_WORD = re.compile(r"[\w'-]+")
_LISTED = re.compile(r"[-*\u2022\u2013]|\(?\w[.)]|(?:and|or|also|as well as)\b")
_IMPERATIVE = r"(?:tell|give|send|name|specify|state|provide|share|confirm|clarify|remind|indicate|supply|describe|write|reply|answer|say)"
_FILLERS = r"and|so|ok|okay|also|but|then|hello|hi|hey|dear|customer|thanks|thank you|sorry|please|now|first|second|next|just|well|kindly"
_TO_YOU = r"(?:can|could|would|will|do|did|have|are|were|may|might) (?:you|i|we)"
_OPENING = re.compile(
    rf"[\W\d]*(?:(?:{_FILLERS})\b[\s,:-]*)*"
    rf"(?:{_IMPERATIVE}\b(?!\s*[:=])|{_TO_YOU}\b|(?:which|who|whose|where|what(?! (?:you|we|i)\b))\b(?=.*\byour?\b))"
)
_WANTED = r"(?:from you|to know|your?|you to|information|details?|number|date|reference|confirmation|clarification)"
_REQUEST = re.compile(
    rf"\bplease (?:\w+ )?{_IMPERATIVE}\b|\blet (?:me|us) know\b|\b(?:tell|give|send|remind) (?:me|us)\b|\b(?:can|could|would|will) you\b"
    rf"|\b(?:need|require|lack|missing|miss)\b.{{0,80}}\b{_WANTED}\b|\blike to (?:know|ask|confirm|clarify)\b"
    r"|\bwonder(?:ing)? (?:which|what|when|if|whether)\b|\bi have (?:a|one|two|some|another) questions?\b"
)
_COURTESY = re.compile(
    r"\b(?:any|anything|something) (?:else|other|further|more)\b|\bfurther (?:questions|help|assistance)\b|\blet (?:me|us) know if\b"
    r"|\bfeel free\b|\bhesitate\b|\bno need\b|\bnot need(?:ed)?\b|\bn't need\b|\bnot (?:necessary|required)\b"
    r"|\bif you have (?:any )?questions\b"
)
