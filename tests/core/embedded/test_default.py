"""The embedded default: honest weights, laws of scorers and denoisers, and better than its parts on the sample."""

import json
import shutil
from functools import partial
from importlib.resources import as_file, files

import numpy as np
import pytest
from command_line import python_output
from growing_texts import numbered_texts, passages_of

from denoise_core import InputError, Passage
from denoise_core.embedded import (
    DefaultScorer,
    default_denoiser,
    default_scale,
    default_stack,
    embedding_scorer,
    sample_questions,
    shared_encoder,
)
from denoise_core.embedded.encoder import (
    EmbeddingCache,
    SentenceEncoder,
    TokenEmbeddings,
    token_idf,
)
from denoise_core.embedded.minilm import DIGESTS, minilm_folder, verify_digest
from denoise_core.end import ENDDenoiser
from denoise_core.evaluate.datasets import read_questions
from denoise_core.evaluate.metrics import recall_at
from denoise_core.runtime import fallbacks
from denoise_core.scorers.bm25 import BM25Scorer
from denoise_core.testing import FunctionScorer, check_denoiser, check_scorer
from denoise_core.text.chunk import no_chunking
from denoise_lab.default import SIGNAL_NAMES, QuestionSignals, choose_signals
from denoise_lab.split import SETS, is_for_fitting

QUESTION = "When was the Eiffel Tower finished?"
TEXTS = [
    "The Eiffel Tower was finished in 1889.",
    "Bananas are rich in potassium. " * 40,
    "Paris has many bakeries.",
    "برج إيفل 😀 in Paris",
    "The tower",
]


def test_weights_are_the_known_ones_and_others_are_refused(tmp_path):
    name = "model.safetensors"
    verify_digest(minilm_folder() / name, DIGESTS[name])
    other_encoder = tmp_path / name
    shutil.copy(minilm_folder() / "config.json", other_encoder)
    with pytest.raises(InputError, match="not the one of rag-denoise-weights"):
        verify_digest(other_encoder, DIGESTS[name])


def test_a_result_comes_without_torch_and_all_that_it_brings():
    code = """
import sys
from denoise_core import Passage
from denoise_core.embedded import default_denoiser
r = default_denoiser().denoise("who?", [Passage("She did.", "a"), Passage("No.", "b")])
heavy = {"torch", "transformers", "sklearn", "scipy", "bm25s", "pydantic", "huggingface_hub"}
print(len(r.passages), *(heavy & set(sys.modules)))
"""
    assert python_output("-c", code).split() == ["2"]


@pytest.mark.parametrize(
    ("make", "listwise"),
    [
        (DefaultScorer, True),
        (partial(DefaultScorer, boost_multi_hop=True), True),
        (embedding_scorer, False),
        (BM25Scorer, True),
    ],
)
def test_scorers_keep_the_laws(make, listwise):
    check_scorer(make(), QUESTION, TEXTS, listwise=listwise, tolerance=1e-4)


@pytest.fixture(scope="module")
def torch_encoder():
    """MiniLM by torch and transformers: each text's states between its special tokens."""
    torch = pytest.importorskip("torch")
    transformers = pytest.importorskip("transformers")
    folder = minilm_folder()
    model = transformers.AutoModel.from_pretrained(folder, dtype="float32").eval()
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder)

    def states(text):
        with torch.inference_mode():
            ids = tokenizer(text, return_tensors="pt", truncation=True, max_length=512)
            return model(**ids).last_hidden_state[0].numpy()

    return states


def ids_of(result):
    return [passage.id for passage in result.passages]


def unit(x):
    return x / np.linalg.norm(x, axis=-1, keepdims=True)


def test_scores_equal_those_of_torch(torch_encoder):
    """The whole path: cosine as torch has it, late interaction up to what 8 bits cost."""
    question, *_ = sample_questions()
    texts = [passage.text for passage in question.passages[:6]]
    query_states = torch_encoder(question.text)
    query_pieces, *text_pieces = shared_encoder()._tokenize([question.text, *texts])
    rarity = token_idf(query_pieces, text_pieces)
    signals = shared_encoder().signals(question.text, texts)
    for text, (cosine, maxsim, *_) in zip(texts, signals, strict=True):
        states = torch_encoder(text)
        wanted = unit(states.mean(0)) @ unit(query_states.mean(0))
        assert cosine == pytest.approx(wanted, abs=1e-4)
        nearest = (unit(states[1:-1]) @ unit(query_states[1:-1]).T).max(0)
        wanted = nearest @ rarity / rarity.sum()
        assert maxsim == pytest.approx(wanted, abs=1e-3), "more than 8 bits may cost"


def test_the_denoiser_keeps_the_laws():
    passages = passages_of([*TEXTS, "", " \n"])
    result = check_denoiser(default_denoiser, QUESTION, passages)
    assert result.passages[0].id == "0"
    assert result.relevant is None


def test_the_sample_is_forty_questions_that_nothing_was_fitted_on():
    questions = sample_questions()
    assert [len(question.passages) for question in questions] == [20] * 40
    assert all(len(question.gold) == 1 and question.answers for question in questions)
    assert not any(is_for_fitting(question.id) for question in questions)
    with as_file(
        files("denoise_core.embedded") / "data" / "nq_sample.jsonl.xz"
    ) as path:
        assert questions == read_questions(path).questions, (
            "it is a file that anybody's reader of questions reads"
        )


def test_the_default_keeps_gold_at_least_as_often_as_cosine_and_more_often_than_bm25():
    """On the first questions of the sample; the whole of it, and others, are a benchmark."""
    questions = sample_questions()[:4]
    gold = [label for question in questions for label in question.labels]
    groups = [question.id for question in questions for _ in question.passages]
    kept_shares = {}
    for name, scorer in (
        ("default", DefaultScorer()),
        ("cosine", embedding_scorer()),
        ("bm25", BM25Scorer()),
    ):
        scores = []
        for question in questions:
            texts = [passage.text for passage in question.passages]
            scores.extend(scorer.score(question.text, texts))
        scores = np.array(scores)
        kept_shares[name] = np.array(
            [recall_at(scores, gold, groups, share).mean() for share in (0.3, 0.1)]
        )
    assert (kept_shares["default"] >= kept_shares["cosine"]).all()
    assert (kept_shares["default"] > kept_shares["bm25"]).all()


def test_what_ships_says_what_it_was_fitted_on():
    card_file = files("denoise_core.embedded") / "data" / "card.json"
    card = json.loads(card_file.read_text("utf-8"))
    assert set(card["fitted on"]) == set(SETS) == set(default_scale().set_names)
    assert set(default_stack().names) >= set(shared_encoder().names)
    assert min(default_stack().weight) >= 0
    controls = card["controls"]
    assert controls.pop("as it is") > max(controls.values())
    margins = [margin for _, margin in sorted(default_scale().margins.items())]
    assert margins == sorted(margins, reverse=True), "a smaller risk keeps more"


def test_passages_of_another_question_are_said_not_to_fit():
    first = sample_questions()[0]
    assert default_denoiser().denoise(first.text, first.passages).relevant is None
    others = passages_of(
        [
            "Bananas are rich in potassium.",
            "The committee met on Tuesday to discuss the budget.",
            "Her new album sold well in Japan.",
        ]
    )
    result = default_denoiser(on_irrelevant="drop").denoise(first.text, others)
    assert result.relevant is False
    assert result.passages == ()


@pytest.mark.parametrize(
    "model",
    [
        {
            "encoder": lambda texts: [
                [float("Porto" in text) + 0.1, 1.0] for text in texts
            ]
        },
        {"encoder": FunctionScorer(lambda question, text: float("Porto" in text))},
        {"reranker": lambda pairs: [float("Porto" in text) for _, text in pairs]},
    ],
)
def test_another_model_in_one_line_keeps_a_share_and_says_so(model, caplog):
    fallbacks._counts.clear()
    denoiser = default_denoiser(**model)
    texts = [
        "The tower is in Porto.",
        *(f"Bread is cheap in town {number}." for number in range(5)),
    ]
    result = denoiser.denoise("Where in Porto is it?", passages_of(texts))
    assert result.passages[0].id == "0"
    assert len(result.passages) == 2
    assert "not calibrated" in caplog.text
    keeps_one = default_denoiser(keep=1, **model)
    assert len(keeps_one.denoise("Porto?", passages_of(texts)).passages) == 1
    for wrong in (
        {"cache_folder": "x"},
        {"boost_multi_hop": True},
        {"risk": 0.1},
        {"encoder": min, "reranker": min},
    ):
        with pytest.raises(InputError, match=r"give one of|pass a share"):
            default_denoiser(**(model | wrong))


def test_a_language_that_the_encoder_does_not_read_is_named_and_nothing_is_lost():
    passages = passages_of(
        [
            "Der Turm ist 330 Meter hoch.",
            "Das Brot ist dort nicht teuer.",
            "Der Fluss ist lang und breit.",
        ]
    )
    result = default_denoiser(on_irrelevant="drop").denoise(
        "Wie hoch ist der Turm in der Stadt?", passages
    )
    assert result.relevant is None
    assert result.passages
    assert "the text looks German; the built-in encoder is English-only" in result.note


def test_rare_pieces_weigh_more():
    weights = token_idf([1, 2, 3], [[1, 2], [1, 4], [1]])
    assert weights[0] < weights[1] < weights[2]


def test_tokens_are_counted_and_long_questions_are_no_trouble():
    assert shared_encoder().count_tokens("") == 0
    assert shared_encoder().count_tokens("Eiffel Tower") >= 2
    assert np.isfinite(DefaultScorer().score("why " * 300, ["because", "no"])).all()


def test_a_long_passage_is_read_in_parts_and_found_by_its_best():
    long_text = TEXTS[1] * 5 + TEXTS[0] + " Paris has many bakeries." * 200
    passages = [Passage(long_text, "long"), Passage("Bananas are yellow.", "short")]
    result = default_denoiser(keep=1, chunker=no_chunking).denoise(QUESTION, passages)
    assert ids_of(result) == ["long"]
    assert shared_encoder().count_tokens(long_text) > 2000


def test_of_a_long_passage_only_the_piece_with_the_answer_is_kept():
    long_text = "\n\n".join([TEXTS[1], TEXTS[0], " Paris has many bakeries." * 60])
    result = default_denoiser(keep=1).denoise(QUESTION, [Passage(long_text, "long")])
    assert TEXTS[0] in result.passages[0].text
    assert len(result.passages[0].text) < 0.5 * len(long_text)


def test_a_second_question_reads_no_passage_again_and_warming_reads_them_before(
    tmp_path,
):
    mine = SentenceEncoder(minilm_folder(), name="mine", cache_folder=tmp_path)
    assert mine.precompute(TEXTS) == len(set(TEXTS))
    first = mine.signals(QUESTION, TEXTS)
    mine.signals("Who bakes?", TEXTS)
    assert mine.embedding_cache.computed_count == len(set(TEXTS))
    other_encoder = SentenceEncoder(
        minilm_folder(), name="mine", cache_folder=tmp_path
    )  # as another process would
    assert np.array_equal(other_encoder.signals(QUESTION, TEXTS), first)
    assert other_encoder.embedding_cache.computed_count == 0


def test_a_denoiser_is_warmed_with_what_it_will_score():
    denoiser = default_denoiser()
    passages = []
    for index in range(5):
        text = f"Number {index} has its own text."
        passages.append(Passage(text, str(index), header="Numbers"))
    assert denoiser.precompute(passages) == 5
    before = shared_encoder().embedding_cache.computed_count
    denoiser.denoise("which number?", passages)
    assert shared_encoder().embedding_cache.computed_count == before
    with pytest.raises(InputError, match="nothing to warm"):
        ENDDenoiser(BM25Scorer()).precompute(passages)


def test_memory_has_a_limit_and_readings_of_another_model_are_not_taken(tmp_path):
    small = SentenceEncoder(minilm_folder(), name="one", cache_folder=tmp_path)
    small.embedding_cache = EmbeddingCache("one", memory=100_000, folder=tmp_path)
    small.precompute(TEXTS)
    assert small.embedding_cache.in_memory.total_weight <= 100_000
    other = SentenceEncoder(minilm_folder(), name="two", cache_folder=tmp_path)
    assert other.precompute(TEXTS[:2]) == 2


def test_a_reading_survives_bytes_and_damage_is_found():
    [reading] = shared_encoder()._encode_texts(TEXTS[:1])
    blob = reading.to_bytes()
    again = TokenEmbeddings.from_bytes(blob)
    for name in reading.__slots__:
        assert np.array_equal(getattr(again, name), getattr(reading, name))
    for bad in (b"", blob[:-1], b"XXXX" + blob[4:], blob + b"0"):
        with pytest.raises(ValueError, match="cut off"):
            TokenEmbeddings.from_bytes(bad)


def test_eight_threads_load_one_model():
    code = """
import importlib, threading
from denoise_core.embedded import DefaultScorer
e = importlib.import_module("denoise_core.embedded.encoder")
loads, real = [], e.load_network
e.load_network = lambda folder: loads.append(folder) or real(folder)
threads = [threading.Thread(target=lambda: DefaultScorer().score("who?", ["a", "b"])) for _ in range(8)]
[t.start() for t in threads]
[t.join() for t in threads]
print(len(loads))
"""
    assert python_output("-c", code).split() == ["1"]


def test_signals_that_say_nothing_earn_no_place():
    """What is dropped does not hang on the order in which weak signals are tried."""
    rng = np.random.default_rng(3)

    def question():
        labels = np.arange(10) == rng.integers(10)
        heard = rng.normal(size=(10, 4)).astype(np.float32)
        heard[:, 1] += (
            2.0 * labels
        )  # two that tell, each with its error, and two of noise
        heard[:, 3] += 2.0 * labels
        return QuestionSignals(heard, labels)

    mix = {name: [question() for _ in range(40)] for name in "abc"}
    names, study = choose_signals(mix, lambda said: None)
    assert names == [SIGNAL_NAMES[1], SIGNAL_NAMES[3]]
    assert len(study["gold kept"]) == 15
    assert all(gain > 0 for gain, _ in study["gain by each of the best"].values())


def test_a_second_look_raises_what_belongs_to_the_best_and_lowers_nothing():
    """The question names the one passage; the other, which it needs too, shares only a name with that."""
    query = "Who is responsible for the invoicing rewrite?"
    texts = [
        "The invoicing rewrite belongs to the Heron squad.",
        "The Heron squad is led by Imke Vollstad.",
        "Lunch is at noon in the canteen.",
        "The card vault opens with two keys.",
        "Parking is free for guests on Sundays.",
        "The printer is next to the lift.",
        "Rain is expected for the weekend.",
    ]
    plain_scores = DefaultScorer().score(query, texts)
    boosted_scores = DefaultScorer(boost_multi_hop=True).score(query, texts)
    assert (boosted_scores >= plain_scores).all()
    assert boosted_scores.argmax() == plain_scores.argmax() == 0
    assert boosted_scores.max() == plain_scores.max()
    assert np.argsort(-boosted_scores)[1] == 1
    assert (boosted_scores > plain_scores).any()


def test_with_a_second_look_auto_keeps_what_it_keeps_without_and_says_the_same():
    for question in sample_questions()[:4]:
        plain, boosted = (
            default_denoiser(boost_multi_hop=is_boosted).denoise(
                question.text, question.passages
            )
            for is_boosted in (False, True)
        )
        assert set(ids_of(plain)) <= set(ids_of(boosted))
        assert boosted.relevant == plain.relevant


@pytest.mark.parametrize(
    "texts",
    [
        [],
        [""],
        ["One."],
        ["One.", "Two."],
        ["Same."] * 4,
        ["", "Two.", "Three.", "Two."],
    ],
)
@pytest.mark.parametrize("query", ["", "Who?", "one two"])
def test_any_list_is_scored_with_a_second_look_and_without(texts, query):
    for is_boosted in (False, True):
        scores = DefaultScorer(boost_multi_hop=is_boosted).score(query, texts)
        assert scores.shape == (len(texts),)
        assert np.isfinite(scores).all()
        assert len(set(scores.tolist())) <= len(set(texts))


def test_one_of_many_records_is_kept_with_few_others():
    records = []
    for item in ("desk lamp", "office chair", "paper shredder", "whiteboard", "fan"):
        template = "id: R{n}, city: Graz, amount: 2{n}, item: " + item
        records += numbered_texts(template, 24)
    records.insert(50, "id: R999, city: Graz, amount: 312, item: espresso grinder")
    question = "What was the amount of the espresso grinder?"
    result = default_denoiser().denoise(question, passages_of(records))
    assert "50" in ids_of(result)
    assert len(result.passages) < 0.2 * len(records)
