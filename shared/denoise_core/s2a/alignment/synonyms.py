"""Words that say the same in nearly every sentence, a group a line. Data, and its look-up.

A rewrite that says "bought" for "acquired" brings no new word. Words that mean the same in some sentences only
("high" and "tall", "big" and "important") are not here, nor are names, numbers and words of time or degree.
"""

from __future__ import annotations

from denoise_core.s2a.alignment.same_words import IRREGULAR

_GROUPS = """
buy bought purchase purchased acquire acquired acquisition
begin began begun beginning start started starts commence commenced
end ended finish finished conclude concluded cease ceased
build built construct constructed construction erect erected
show shows showed shown display displays displayed exhibit exhibits exhibited
help helped helps assist assisted aid aided
use used uses utilise utilised utilize utilized employ
house houses housed home
get got receive received obtain obtained
give gave given grant granted award awarded
hurt injured injuries injury wounded harmed
die died dies dead death deaths deceased
collapse collapsed fell
close closed closes shut shuts closure
open opened opens opening inaugurated
doctor doctors physician physicians
company firm business corporation
employee employees staff worker workers workforce personnel
employ employs employed hire hired hires
car cars automobile automobiles
film films movie movies
author writer wrote written
found founded founder establish established founding created
move moved relocate relocated moving
live lives lived reside resides resident residents inhabitant inhabitants
kid kids child children
teach taught teacher teachers instruct instructed
student students pupil pupils
lawyer lawyers attorney attorneys
police officers
happen happened occur occurred occurs
quick quickly fast rapid rapidly
yearly annual annually year
daily day
monthly month
weekly week
need needs needed require requires required requirement
allow allows allowed permit permits permitted permission
forbid forbidden prohibit prohibited prohibits banned ban
try tries tried attempt attempts attempted
choose chose chosen select selected picked elect elected
keep kept retain retained
make made produce produced manufacture manufactured makes produces
grow grew grown increase increased rise rose risen climbed
fall fell fallen decrease decreased decline declined dropped drop
big large
little small
stop stopped stops halt halted
expire expires expired lapse lapses lapsed
right rights entitled entitlement
leave holiday vacation
cost costs price priced
pay paid payment payments
aim aims goal goals purpose
reserved restricted limited
travel travels travelled journey trip
connect connects connected link links linked
contain contains contained include includes included comprise comprises comprised
carry carries carried transport transported
destroy destroyed demolish demolished
repair repaired fix fixed mend mended
country nation
town city
road street
ship vessel boat
famous well-known renowned
main principal chief
say said says state stated
ask asked request requested
answer answered reply replied respond responded
married wed
buried burial grave
named called
situated located lies stands
consist consists made comprises
visit visits visited visitor visitors
take took taken
go went gone
reject rejected refuse refused
approve approved accept accepted
""".strip().splitlines()
_OF: dict[str, set[int]] = {}
for _n, _line in enumerate(_GROUPS):
    for _word in _line.split():
        _OF.setdefault(_word, set()).add(_n)


def alike(norm: str, known: set[str]) -> bool:
    """Whether one of the ``known`` words says the same as ``norm``."""
    groups = _OF.get(norm) or _OF.get(IRREGULAR.get(norm, norm)) or set()
    return bool(groups) and any(groups & _OF[word] for word in known if word in _OF)
