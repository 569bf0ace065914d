"""Words that must neither come nor go when a question is cleared, and words that may. Data, and its look-up."""

from __future__ import annotations

import re

from denoise_core.text.wordlists import NEGATIONS, listed


def _table(**meanings: str) -> dict[str, str]:
    """Each word with what it means."""
    return {word: meaning for meaning, words in meanings.items() for word in words.split()}


# Words that must be the same on both sides, by what they relate. Of each class words that mean the same
# share one.
CLASSES: dict[str, dict[str, str]] = {
    "negation": dict.fromkeys(NEGATIONS | listed("n except excluding jamás tranne кроме"), "denial"),
    "time": _table(
        before=(
            "before prior avant antes prima vóór voor перед vor 之前 以前 قبل until till bis jusqu hasta até fino"
        ),
        after=(
            "after following afterwards après después depois dopo na после nach 之后 以后 بعد since "
            "seit depuis desde"
        ),
        during="during while während pendant durante mentre tijdens во 期间 أثناء خلال",
    ),
    "degree": _table(
        more="more mehr plus más mais più meer больше 更 أكثر",
        less="less fewer weniger moins menos meno minder меньше 更少 أقل",
        most="most meisten maximum max",
        least="least fewest wenigsten minimum min mindestens",
        only="only nur seulement solo sólo solamente apenas soltanto alleen только 只 仅 فقط",
        all="all every alle tous toutes todos todas tutti tutte все 所有 全部 كل جميع",
        first=(
            "first erste ersten erster premier première primer primero primera primeiro primo prima 第一 الأول"
        ),
        last="last letzte letzten letzter dernier dernière último última ultimo 最后 الأخير",
    ),
    "modality": _table(
        must=(
            "must required obliged obligatory mandatory muss müssen doit doivent faut debe deben deve "
            "devono moet должен 必须 يجب"
        ),
        may=("may allowed permitted permissible darf dürfen erlaubt gestattet permis puis mag 可以 允许 يجوز"),
        might="possible possibly might möglich posible posiblemente possibile 可能 ممكن",
        should="should ought soll sollte devrait debería dovrebbe 应该 ينبغي",
    ),
}
_NECESSITY = re.compile(r"\b(?:have|has|had|need|needs) to\b", re.IGNORECASE)

# Words that a neutral question may drop or bring without asking for something else.
LIGHT = frozenset(
    [
        "please",
        "pls",
        "thx",
        "thanks",
        "thank",
        "hello",
        "hi",
        "hey",
        "dear",
        "sorry",
        "kindly",
        "exactly",
        "actually",
        "really",
        "just",
        "simply",
        "even",
        "ever",
        "honestly",
        "frankly",
        "quickly",
        "again",
        "now",
        "today",
        "know",
        "tell",
        "say",
        "give",
        "show",
        "explain",
        "me",
        "us",
        "you",
        "your",
        "wondering",
        "question",
        "answer",
        "ask",
        "asked",
        "asking",
        "exact",
        "precise",
        "correct",
        "right",
        "true",
        "fact",
        "name",
        "called",
        "there",
        "exist",
        "exists",
        "be",
        "happen",
        "happened",
        "take",
        "place",
        "occur",
        "occurred",
        "valid",
        "last",
        "lasts",
        "work",
        "working",
        "used",
        "use",
        "do",
        "does",
        "did",
        "done",
        "get",
        "got",
        "go",
        "one",
        "way",
        "thing",
        "kind",
        "type",
        "sort",
        "amount",
        "number",
        "time",
        "year",
        "date",
        "day",
        "person",
        "people",
        "someone",
        "anyone",
        "bitte",
        "danke",
        "hallo",
        "genau",
        "eigentlich",
        "mal",
        "denn",
        "überhaupt",
        "gerade",
        "sagen",
        "wissen",
        "jetzt",
        "mir",
        "uns",
        "s'il",
        "plaît",
        "merci",
        "bonjour",
        "dire",
        "exactement",
        "savoir",
        "por",
        "favor",
        "gracias",
        "hola",
        "decirme",
        "exactamente",
        "saber",
        "obrigado",
        "olá",
        "exatamente",
        "grazie",
        "ciao",
        "esattamente",
        "dirmi",
        "sapere",
        "alstublieft",
        "dank",
        "пожалуйста",
        "спасибо",
        "скажите",
        "请",
        "谢谢",
        "您好",
        "من",
        "فضلك",
        "شكرا",
        "long",
        "year",
        "it",
        "he",
        "she",
        "they",
        "them",
        "his",
        "her",
        "its",
        "their",
        "this",
        "that",
        "we",
        "our",
        "my",
        "i",
        "mine",
        "so",
        "then",
        "too",
        "also",
        "well",
        "okay",
        "ok",
        "lol",
        "quick",
        "random",
        "wonder",
        "curious",
        "whether",
        "roughly",
        "approximately",
        "circa",
        "ob",
        "located",
        "situated",
        "liegt",
        "befindet",
        "gelegen",
        "se",
        "trouve",
        "situé",
        "située",
        "encuentra",
        "ubicado",
        "ubicada",
        "situado",
        "situada",
    ]
)


# Of these, nouns that an order may be about: "Name the author and the year of the book".
LIGHT_NOUNS = listed("year date day time number amount person people name place kind type sort way thing fact")


LOADED = listed(
    """
    awful terrible horrible dreadful stupid idiotic idiot idiots ridiculous absurd disgusting hideous overrated
    wonderful fantastic amazing glorious so-called schrecklich furchtbar blöd dumm scheußlich wunderbar toll
    horrible affreux stupide ridicule merveilleux estúpido ridículo maravilloso fantástico
    """
)
"""Words that only judge: a neutral question leaves them out, and brings none."""

# Words of a polite clause around a question; and the verbs in it that say that something is to be told.
COURTESIES = listed(
    """
    please kindly just maybe perhaps possibly quick quickly hi hello hey so well ok okay sorry excuse hoping hoped
    hope wondering appreciate grateful glad thankful like love want need kind nice good enough idea clue chance
    happen possible able interested let out up double trouble busy mind
    trying anyone someone anybody somebody question ask asking be i'd i'm i've
    you'd could would won't wouldn't couldn't sir madam guys folks there again bit more about something anything
    darf bitte gern gerne mal kurz könnten könntest würden würdest wissen sie du mir uns jemand ich möchte würde
    frage so
    gerade einmal zufällig vielleicht nochmal
    entschuldigung verzeihung moin servus abend morgen schönen liebe lieber könnt ihr
    freundlich nett und hallo guten tag
    bonjour pourriez pourrais pouvez peux vous tu me nous s'il plaît quelqu'un je voudrais j'aimerais
    bonsoir svp stp merci auriez madame monsieur messieurs excusez moi pardon gentil
    est-ce que
    de sería serías tan tendría tendrías bondad gentileza
    hola podría podrías podrían puede puedes pueden usted ustedes me nos por favor alguien quisiera gustaría buenos
    buenas días tardes noches disculpe disculpa perdón amable gracias
    """
)
TELLING = listed(
    """
    tell explain say know show help clarify idea clue wonder wondering curious remind inform enlighten understand
    find figure learn confused ask asking question check verify look
    sagen erklären verraten mitteilen wissen weiß fragen frage
    dire expliquer indiquer savoir sais savez demande
    m'indiquer m'expliquer me-dire m'dire
    decir decirme explicar explicarme indicarme saber sabe sabes pregunto
    """
)


def classes_of(words: list[str], text: str) -> dict[str, frozenset[str]]:
    """For each class of words that must stay, those that ``words`` hold."""
    found = {name: frozenset(table[w] for w in words if w in table) for name, table in CLASSES.items()}
    if _NECESSITY.search(text):
        found["modality"] |= {"must"}
    return found
