"""The rules by which an answer is right. A study names its rule, and does not change it.

A rule never changes under its name, because older studies name it too: a better one gets another name.

Source of `normalised`: GT-Vision-Lab/VQA at a013f004, PythonEvaluationTools/vqaEvaluation/vqaEval.py. Beyond it, the
known answer may be the first sentence or line, and a known yes, no or letter has a rule of its own.
"""

import re
import sys
from collections.abc import Callable
from importlib import import_module
from pathlib import Path

import numpy as np

from trio_profile.errors import StudyError
from trio_profile.records.study import MATCHES
from trio_profile.text import first_line

Rule = Callable[[str, str], bool]
"""Returns whether an answer is right: `rule(answer, known)`."""
_ARTICLES = ("a", "an", "the")
_NUMBERS = ("zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten")
_DIGITS = {"none": "0", **{word: str(number) for number, word in enumerate(_NUMBERS)}}
_PUNCTUATION = ';/[]"{}()=+\\_-><@`,?!'
_CONTRACTIONS = """
    aint arent cant couldve couldnt couldntve didnt doesnt dont hadnt hadntve hasnt havent hed hedve hes howd howll
    hows idve im ive isnt itd itdve itll lets maam mightnt mightntve mightve mustnt mustve neednt notve oclock oughtnt
    owsat shant shedve shes shouldve shouldnt shouldntve somebodyd somebodydve somebodyll somebodys someoned someonedve
    someonell someones somethingd somethingdve somethingll thats thered theredve therere theres theyd theydve theyll
    theyre theyve twas wasnt wedve weve werent whatll whatre whats whatve whens whered wheres whereve whod whodve wholl
    whos whove whyll whyre whys wont wouldve wouldnt wouldntve yall yallll yalldve youd youdve youll youre youve
    """
"""Words that are the same with and without their apostrophes."""
_SPELLINGS = frozenset(_CONTRACTIONS.split())


def exact(answer: str, known: str) -> bool:
    """Whether an answer is the known one, or begins with it as a sentence or line of its own.

    Case, spaces and a final full stop do not matter. This is the rule of studies that name none.
    """
    wanted, sentences = _plain(known), _plain(re.sub(r"\s*\n\s*", ". ", answer.strip()))
    return _plain(answer) == wanted or sentences == wanted or sentences.startswith(f"{wanted}. ")


def normalised(answer: str, known: str) -> bool:
    """Whether an answer, or its first sentence or line, is the known one after VQA's normalisation.

    Of an answer to yes or no the first word counts. A letter may stand in brackets, and something may follow it:
    `(A)`, `A.`, `A: a cup`. What is right by `exact` is right here too.
    """
    if exact(answer, known):
        return True
    wanted = _vqa(known)
    if wanted in ("yes", "no"):
        return re.findall(r"[^\W_]+", answer.lower())[:1] == [wanted]
    if letter := _letter_of(known):
        return re.match(rf"[\W_]*{letter}([.:,)\]*]|[^\w\n]*(\n|$))", answer, re.IGNORECASE) is not None
    first_sentence = re.split(r"(?<=[.!?;])\s|\n", answer.strip())[0]
    return bool(wanted) and wanted in (_vqa(answer), _vqa(first_sentence))


def contains(answer: str, known: str) -> bool:
    """Whether the words of the known answer stand in an answer, one after the other, after VQA's normalisation.

    A letter must stand there as a capital. What is right by `normalised` is right here too.
    """
    if normalised(answer, known):
        return True
    if letter := _letter_of(known):
        return re.search(rf"\b{letter.upper()}\b", answer) is not None
    wanted = _vqa(known)
    return bool(wanted) and f" {wanted} " in f" {_vqa(answer)} "


RULES: dict[str, Rule] = dict(zip(MATCHES, (exact, normalised, contains), strict=True))


def rule_of(name: str) -> Rule:
    """Return the rule of a study. name: one of RULES, or `module:function`, which is imported.

    Raises StudyError if there is no such function. The rule raises one if the function fails, or says neither True nor
    False.
    """
    if name in RULES:
        return RULES[name]
    module, _, attribute = name.partition(":")
    try:
        function = getattr(import_module(module), attribute)
    except (Exception, SystemExit) as error:  # importing runs the user's own code, which may fail in any way
        raise StudyError(f"match {name!r} cannot be imported ({first_line(error)}); name module:function") from error
    if not callable(function):  # it would fail after the first answer
        raise StudyError(f"match {name!r} is {function!r:.80}, no function; name module:function")

    def rule(answer: str, known: str) -> bool:
        try:
            verdict = function(answer, known)
        except Exception as error:
            why = f"{type(error).__name__}: {first_line(error)}"
            raise StudyError(f"match {name!r} fails for the answer {answer!r:.80} to {known!r:.80} ({why})") from error
        if not isinstance(verdict, bool | np.bool_):
            raise StudyError(f"match {name!r} returns {verdict!r:.80} for an answer; return True or False")
        return bool(verdict)

    return rule


def file_of(name: str) -> Path | None:
    """Return the file of the function that a study names as its rule. None for one of RULES."""
    if name in RULES:
        return None
    rule_of(name)
    file = getattr(sys.modules[name.partition(":")[0]], "__file__", None)
    return None if file is None else Path(file)


def _plain(text: str) -> str:
    """Text in lower case, with single spaces and no full stop at the end."""
    return " ".join(text.lower().split()).rstrip(".").rstrip()


def _letter_of(known: str) -> str:
    """The letter that is the known answer, as in `(A)` or `A.`; else empty."""
    letter = re.fullmatch(r"\s*[(\[]?([A-Za-z])[)\].:]*\s*", known)
    return letter[1] if letter else ""


def _vqa(text: str) -> str:
    """Text as VQA compares it: without punctuation, case and articles; with digits; contractions in one spelling."""
    has_comma = re.search(r"\d,\d", text)
    bare = text = " ".join(text.split())
    for sign in _PUNCTUATION:
        at_a_word = f"{sign} " in text or f" {sign}" in text
        bare = bare.replace(sign, "" if at_a_word or has_comma else " ")
    words = (_DIGITS.get(word, word) for word in re.sub(r"\.(?!\d)", "", bare).lower().split())
    return " ".join(_spelled(word) for word in words if word not in _ARTICLES)


def _spelled(word: str) -> str:
    """A word without the apostrophes of a contraction."""
    letters = word.replace("'", "")
    return letters if letters in _SPELLINGS else word
