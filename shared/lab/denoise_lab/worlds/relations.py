"""What can be said of things, people and towns, and asked, in varied wording.

The last wording of every list is for testing only. The others are many, so that a reader has to understand and to
copy a statement instead of knowing the few forms that it may have.
"""

from __future__ import annotations

from dataclasses import dataclass


def words(text: str) -> tuple[str, ...]:
    return tuple(text.split())


@dataclass(frozen=True, slots=True)
class Relation:
    """What can be said of a subject: statements with ``{s}`` and ``{v}``, questions and a cloze with ``{s}``.

    ``values`` are its possible values; an empty tuple stands for numbers or names that are drawn, see `World`.
    The last statement and the last question are for testing only. ``hint`` is what a search query says.
    """

    name: str
    statements: tuple[str, ...]
    questions: tuple[str, ...]
    cloze: str
    hint: str
    values: tuple[str, ...] = ()


PASSWORD = Relation(
    "password",
    (
        "The password of {s} is {v}.",
        "{v} is the password of {s}.",
        "Whoever wants to open {s} needs the password {v}.",
        "To get into {s}, type {v}.",
        "{s} has the password {v}.",
        "With the password {v} anyone can open {s}.",
        "{s} opens with {v}.",
        "{v} is what opens {s}.",
        "The code that {s} asks for is {v}.",
        "For {s} the password is {v}.",
    ),
    (
        "What is the password of {s}?",
        "Which password opens {s}?",
        "Tell me the password of {s}.",
        "With which password can I open {s}?",
        "What do I have to type to get into {s}?",
        "Do you know the password of {s}?",
        "Which code does {s} ask for?",
        "{s} wants a password: which one?",
        "What password does {s} have?",
    ),
    "The password of {s} is",
    "password",
)
PERSON = (
    Relation(
        "town",
        (
            "{s} lives in {v}.",
            "The home of {s} is in {v}.",
            "{s} has a house in {v}.",
            "{v} is where {s} lives.",
            "{s} is at home in {v}.",
            "Letters to {s} go to {v}.",
            "The family of {s} lives in {v}.",
            "{s} moved to {v} and stayed.",
            "In {v} everyone knows the house of {s}.",
            "{s} settled in {v}.",
        ),
        (
            "Where does {s} live?",
            "In which town does {s} live?",
            "Where is the home of {s}?",
            "Which town does {s} live in?",
            "In which town is {s} at home?",
            "Where has {s} a house?",
            "Where do letters to {s} go?",
            "Which is the town of {s}?",
            "What town is {s}'s home?",
        ),
        "{s} lives in",
        "lives in",
    ),
    Relation(
        "job",
        (
            "{s} works as a {v}.",
            "The job of {s} is that of a {v}.",
            "{s} earns a living as a {v}.",
            "{s} became a {v}.",
            "As a {v}, {s} is hard to beat.",
            "{s} is paid for the work of a {v}.",
            "{s} was trained as a {v}.",
            "Those who need a {v} call {s}.",
            "{s} has been a {v} for years.",
            "{s} is a {v}.",
        ),
        (
            "What is the job of {s}?",
            "What does {s} work as?",
            "How does {s} earn a living?",
            "What work does {s} do?",
            "What is {s} by trade?",
            "As what does {s} work?",
            "What was {s} trained as?",
            "Which work is {s} paid for?",
            "Which job has {s}?",
        ),
        "{s} works as a",
        "works as",
        words("""
            baker barber brewer butcher carpenter chemist clerk cook dentist doctor driver farmer
            fisher gardener glazier hunter jeweller judge lawyer mason miller miner nurse painter
            pilot plumber porter potter printer sailor singer smith surgeon tailor teacher tutor
            waiter weaver writer
        """),
    ),
    Relation(
        "pet",
        (
            "{s} keeps a {v}.",
            "{s} has a {v} at home.",
            "The pet of {s} is a {v}.",
            "A {v} lives with {s}.",
            "{s} shares the house with a {v}.",
            "Every morning {s} feeds a {v}.",
            "{s} was given a {v}.",
            "The {v} of {s} is well known.",
            "{s} would not part with a certain {v}.",
            "{s} owns a {v}.",
        ),
        (
            "Which animal does {s} keep?",
            "What pet has {s}?",
            "What is the pet of {s}?",
            "Which animal lives with {s}?",
            "What animal does {s} have at home?",
            "What does {s} keep as a pet?",
            "Which pet does {s} feed?",
            "What kind of animal is the pet of {s}?",
            "Which animal has {s}?",
        ),
        "{s} keeps a",
        "keeps a pet",
        words("""
            badger beaver canary cat crow dog donkey duck falcon ferret fox frog goat goose hamster
            hare hen horse lizard lynx mouse otter owl parrot pigeon pony rabbit raven robin sheep
            snake swan tortoise turtle
        """),
    ),
    Relation(
        "instrument",
        (
            "{s} plays the {v}.",
            "{s} is learning the {v}.",
            "The instrument of {s} is the {v}.",
            "On the {v} {s} is a master.",
            "{s} practises the {v} at night.",
            "{s} loves to play the {v}.",
            "The {v} is what {s} plays.",
            "One hears {s} at the {v}.",
            "{s} has played the {v} since childhood.",
            "{s} took up the {v}.",
        ),
        (
            "Which instrument does {s} play?",
            "What does {s} play?",
            "What is the instrument of {s}?",
            "What instrument is {s} learning?",
            "On which instrument does one hear {s}?",
            "What does {s} practise?",
            "Which instrument is played by {s}?",
            "What instrument does {s} love to play?",
            "Which instrument has {s}?",
        ),
        "{s} plays the",
        "plays instrument",
        words("""
            accordion banjo bassoon bugle cello clarinet cornet drum fiddle flute gong harp horn
            lute mandolin oboe organ recorder sitar trombone trumpet tuba viola violin whistle
            zither
        """),
    ),
    Relation(
        "born",
        (
            "{s} was born in {v}.",
            "The year of birth of {s} is {v}.",
            "{s} came into the world in {v}.",
            "In {v} {s} was born.",
            "The birth of {s} was in {v}.",
            "{v} was the year of birth of {s}.",
            "{s} is a child of the year {v}.",
            "{s} first saw the light in {v}.",
            "{s} has been on earth since {v}.",
            "{s} dates from {v}.",
        ),
        (
            "When was {s} born?",
            "In which year was {s} born?",
            "What is the year of birth of {s}?",
            "When did {s} come into the world?",
            "What was the year of birth of {s}?",
            "In what year did {s} first see the light?",
            "Which year saw the birth of {s}?",
            "When was the birth of {s}?",
            "Which year was {s} born in?",
        ),
        "{s} was born in",
        "born in",
    ),
)
TOWN = (
    Relation(
        "mayor",
        (
            "The mayor of {s} is {v}.",
            "{s} is governed by mayor {v}.",
            "In {s} the mayor is {v}.",
            "{v} is the mayor of {s}.",
            "{s} chose {v} as its mayor.",
            "{v} governs {s}.",
            "Mayor {v} looks after {s}.",
            "The people of {s} call {v} their mayor.",
            "In the town hall of {s} sits {v}.",
            "{s} has {v} for mayor.",
        ),
        (
            "Who is the mayor of {s}?",
            "Who governs {s}?",
            "What is the name of the mayor of {s}?",
            "Whom did {s} choose as its mayor?",
            "Which mayor does {s} have?",
            "By whom is {s} governed?",
            "Who looks after {s} as its mayor?",
            "Who sits in the town hall of {s}?",
            "Who is mayor in {s}?",
        ),
        "The mayor of {s} is",
        "mayor",
    ),
    Relation(
        "trade",
        (
            "{s} is known for its {v}.",
            "The pride of {s} is its {v}.",
            "{s} lives from its {v}.",
            "The best {v} is from {s}.",
            "People come to {s} for its {v}.",
            "{s} is famous for {v}.",
            "What {s} makes best is {v}.",
            "The {v} of {s} is praised everywhere.",
            "Through its {v} {s} became rich.",
            "{s} sells its {v}.",
        ),
        (
            "What is {s} known for?",
            "What is the pride of {s}?",
            "What does {s} live from?",
            "What is {s} famous for?",
            "For what do people come to {s}?",
            "What does {s} make best?",
            "What made {s} rich?",
            "What from {s} is praised everywhere?",
            "What does {s} sell?",
        ),
        "{s} is known for its",
        "known for",
        words("""
            barley beer bread bricks butter candles carpets cheese cherries cider coal grapes hats
            herring honey jam lace lemons mustard olives paper pears pepper plums pottery rice rope
            salt soap sugar tea tiles timber vinegar wheat wine
        """),
    ),
    Relation(
        "founded",
        (
            "{s} was founded in {v}.",
            "The year in which {s} began is {v}.",
            "{s} has stood since {v}.",
            "In {v} {s} was founded.",
            "The first house of {s} was built in {v}.",
            "{s} became a town in {v}.",
            "{v} was the year in which {s} began.",
            "Since {v} there has been a town called {s}.",
            "{s} counts its years from {v}.",
            "{s} goes back to {v}.",
        ),
        (
            "When was {s} founded?",
            "In which year did {s} begin?",
            "Since when has {s} stood?",
            "In which year was {s} founded?",
            "When did {s} become a town?",
            "When was the first house of {s} built?",
            "From which year does {s} count its years?",
            "Since when has there been a town called {s}?",
            "Which year was {s} founded in?",
        ),
        "{s} was founded in",
        "founded in",
    ),
)
RELATIONS = (PASSWORD, *PERSON, *TOWN)
