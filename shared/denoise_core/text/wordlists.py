"""Word lists by which the gate tells facts from wording. Data, no logic."""

from __future__ import annotations


def _words(text: str) -> list[str]:
    return text.split()


def listed(text: str) -> frozenset[str]:
    """The words of a list that is written as one text."""
    return frozenset(text.split())


# English after contractions are opened (didn't -> did not), then German, French, Spanish, Portuguese, Italian,
# Dutch, Russian, Polish, Swedish, Danish, Norwegian, Turkish, Arabic, Persian, Hebrew, Hindi, Vietnamese,
# Indonesian; Chinese and Japanese, one character a token.
NEGATIONS = frozenset(
    _words(
        """
        not no never none nobody nothing nowhere neither nor without cannot hardly barely scarcely unless except
        nicht kein keine keinen keiner keines nie niemals ohne ne pas jamais sans aucun aucune
        nunca jamás sin ningún ninguna ninguno não nem sem nenhum nenhuma non mai senza nessun nessuna
        niet geen nooit zonder не нет ни никогда без nigdy bez inte ingen aldrig utan ikke aldri uten uden
        değil hiç لا لم لن ليس ليست غير بدون نه نیست نمی לא אין בלי नहीं न मत không chẳng tidak bukan tanpa
        不 没 沒 無 无 非 未 勿 莫 ぬ
        """
    )
)

NUMBER_WORDS = {
    **{w: str(n) for n, w in enumerate(_words("zero one two three four five six seven eight nine ten eleven"))},
    **{w: str(n) for n, w in enumerate(_words("twelve thirteen fourteen fifteen sixteen seventeen"), 12)},
    **{"eighteen": "18", "nineteen": "19", "hundred": "100", "thousand": "1000", "million": "1000000"},
    **{w: str(10 * n) for n, w in enumerate(_words("twenty thirty forty fifty sixty seventy eighty ninety"), 2)},
    **{w: f"{n}th" for n, w in enumerate(_words("first second third fourth fifth sixth seventh eighth"), 1)},
    **{"ninth": "9th", "tenth": "10th", "billion": "1000000000", "dozen": "12", "percent": "%"},
    **{"half": "1/2", "twice": "2x", "once": "1x", "double": "2x", "triple": "3x"},
}

MONTHS = {
    name: f"month{number}"
    for number, names in (
        (1, "january jan"),
        (2, "february feb"),
        (3, "march"),
        (4, "april apr"),
        (5, "may"),
        (6, "june jun"),
        (7, "july jul"),
        (8, "august aug"),
        (9, "september sep sept"),
        (10, "october oct"),
        (11, "november nov"),
        (12, "december dec"),
    )
    for name in _words(names)
}

# Words that say little by themselves: new ones make an edit, not an addition.
FUNCTION_WORDS = frozenset(
    _words(
        """
        a an the this that these those it its he she they them his her their theirs him we us our you your i me my
        who whom whose which what where when why how there here and or but so yet for of in on at by to from with
        as than then if while because since although though also too very just only even still both each every any
        some such same other another more most much many few less least own be am is are was were been being do
        does did done have has had having will would shall should can could may might must into onto over under
        above below between among through during before after about against around across along within toward
        towards upon per via however moreover furthermore additionally meanwhile thus therefore hence later
        subsequently afterwards previously currently now today located known called named s t d ll re ve m
        """
    )
)

CONTRACTIONS = {
    "can't": ("can", "not"),
    "cannot": ("can", "not"),
    "won't": ("will", "not"),
    "shan't": ("shall", "not"),
    "ain't": ("is", "not"),
}

NEGATING_PREFIXES = ("un", "in", "im", "il", "ir", "dis", "non", "non-", "mis", "anti", "de")
