"""Word lists, each defined once: data without logic.

Number words are in ``facts/numbers``, months in ``facts/dates``, the frequent words
that identify a language in ``language``, function words of other languages in
``stems``.
"""

from __future__ import annotations


def word_set(text: str) -> frozenset[str]:
    """Return the words of a list that is written as one text."""
    return frozenset(text.split())


def words_by_key(table: str) -> dict[str, str]:
    """Map each word of a table to the key of its row; a row is ``key: word word``.

    >>> words_by_key("3: thousand mille")
    {'thousand': '3', 'mille': '3'}
    """
    key_of_word: dict[str, str] = {}
    for row in table.strip().splitlines():
        row_key, _, row_words = row.partition(":")
        key_of_word |= dict.fromkeys(row_words.split(), row_key.strip())
    return key_of_word


# Words that carry no content: a rewrite that adds only these adds no statement.
FUNCTION_WORDS = word_set(
    """
    a an the this that these those it its he she they them his her their theirs him
    we us our you your i me my who whom whose which what where when why how there here
    and or but so yet for of in on at by to from with as than then if while because
    since although though also too very just only even still both each every any some
    such same other another more most much many few less least own be am is are was
    were been being do does did done have has had having will would shall should can
    could may might must into onto over under above below between among through during
    before after about against around across along within toward towards upon per via
    however moreover furthermore additionally meanwhile thus therefore hence later
    subsequently afterwards previously currently now today located known called named
    s t d ll re ve m
    """
)

# Words that `content_words` leaves out. Fewer than above, so that a search for a place
# or a time still finds it; negations are included.
STOPWORDS = word_set(
    """
    a an the and or but if of at by for with about into to from in on up down out over
    under is am are was were be been being have has had having do does did doing will
    would shall should can could may might must this that these those it its he she
    they them his hers her their we you i me my your our us as so than then there here
    what which who whom whose when where why how also s t not no nor
    """
)
ARTICLES = frozenset(("a", "an", "the"))
