"""The pieces that a model may keep or drop.

How a passage is cut, shown with numbers, and completed after the choice. A piece is a
sentence, a table row, a list item, a code block or a dialogue turn, with the white space
after it. The pieces of a passage tile it. A kept piece may need others to be understood:
a sentence that begins with a pronoun or a connective the sentence before it, an indented
line the lines that it belongs to; titles, a table's header and a list's lead are what
`DocumentReader` finds.
"""

from __future__ import annotations

import itertools
import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace

from denoise_core.s2a.options import Options
from denoise_core.text.chunk import sentence_spans
from denoise_core.types import Passage, Span

_FENCE_LINE = re.compile(r"[ \t]{0,3}(`{3,}|~{3,})")
_TABLE_ROW = re.compile(r"[ \t]{0,9}\|.*\|[ \t]{0,9}$|[^\t\n]*\t[^\n]*$")
_LIST_ITEM = re.compile(
    r"[ \t]{0,9}(?:[-*+•‣◦]|\(?\d{1,3}[.)]|\(?[a-zA-Z][.)])[ \t]{1,9}\S"
)
# An item of a list; alone in a text, a person's initial.
_NAME_INITIAL = re.compile(r"[ \t]{0,9}[A-Z]\.[ \t]")
_DIALOGUE_TURN = re.compile(
    r"[ \t]{0,9}(?:\*\*|\[)?([^\W\d_][\w.'’ -]{0,29})(?:\*\*|\])?[:：](?:\*\*)?[ \t]{1,9}\S"
)
_QUESTION_END = re.compile(r"[?？؟][\"'”’»)\]]{0,3}\s{1,9}(?=[\"'“‘«(\[]?[^\W\d_a-z])")
_SENTENCE_END = re.compile(r"[.!?…。！？؟।:;][\"'”’»)\]]*$")

# Pieces before an indented line in which the lines that it belongs to are looked for.
_MAX_LOOK_BACK = 200
_MAX_CHAINED_SENTENCES = 2  # sentences brought by pronouns, one after the other
_POINTS_BACK = re.compile(
    r"[\s\"'“”‘’«»(\[*_-]{0,6}(?:"
    # English pronouns and connectives, then German, French, Spanish, Portuguese, Italian, Dutch, Russian.
    r"(?:he|she|it|they|him|her|his|hers|its|their|theirs|this|these|those|that|such|both|neither"
    r"|the latter|the former"
    r"|one of (?:them|these|those)|there|then|here|however|therefore|thus|hence|moreover|furthermore"
    r"|instead|otherwise"
    r"|nevertheless|nonetheless|consequently|accordingly|similarly|likewise|also|but|and|or|so|yet"
    r"|still|in contrast"
    r"|by contrast|as a result|in addition|after that|before that|for this reason|on the other hand"
    r"|er|sie|es|ihr|ihre|ihren|sein|seine|dieser|diese|dieses|diesem|dies|jener|jene|dort|dabei|daher|deshalb|jedoch"
    r"|dennoch|allerdings|außerdem|danach|davor|dann|aber|doch|stattdessen|dagegen"
    r"|il|elle|ils|elles|son|sa|ses|leur|leurs|ce|cet|cette|ces|celui-ci|celle-ci|cela|mais|donc|ainsi|cependant"
    r"|toutefois|ensuite|puis|en revanche|de plus"
    r"|él|ella|ellos|ellas|su|sus|este|esta|estos|estas|ese|esa|eso|aquel|pero|sin embargo|por eso|además|luego"
    r"|después|entonces|así"
    r"|ele|ela|eles|elas|seu|sua|seus|suas|isso|isto|esse|essa|mas|porém|portanto|além disso|depois"
    r"|lui|lei|loro|suo|sua|questo|questa|questi|queste|quello|quella|ciò|ma|però|quindi|tuttavia|inoltre|poi"
    r"|hij|zij|ze|hun|dit|deze|maar|daarom|echter|daarna"
    r"|он|она|оно|они|его|её|их|этот|эта|это|эти|но|однако|поэтому|затем|потом"
    r")\b(?!['’])"
    r"|(?:他|她|它|这|那|此|其|但|然而|因此|所以|不过|另外|それ|これ|その|この|彼|しかし|そのため|また|だから)"
    r"|(?:هو|هي|هم|هذا|هذه|لكن|ولكن|لذلك|ومع ذلك|كما)(?=\s))",
    re.IGNORECASE,
)


def split_pieces(passage: Passage, *, language: str = "en") -> tuple[Span, ...]:
    """Return the pieces of a passage in order; none for an empty text."""
    text = passage.text
    end_offsets = []
    for start, end, is_prose in _split_blocks(text):
        block_ends = [end]
        if is_prose:
            block_ends = _sentence_ends(text, start, end, language)
        end_offsets += block_ends
    pieces: list[Span] = []
    # White space alone goes with what is before it, or after it at the very beginning.
    has_text = True
    cut_offsets = {0, *end_offsets, len(text)}
    ordered_offsets = sorted(cut_offsets)
    for start, end in itertools.pairwise(ordered_offsets):
        cut_text = text[start:end]
        is_blank = cut_text.isspace()
        joins_previous = is_blank or not has_text
        if pieces and joins_previous:
            piece_start = pieces[-1].start
            pieces[-1] = Span(passage.id, piece_start, end)
            has_text = has_text or not is_blank
        else:
            new_piece = Span(passage.id, start, end)
            pieces.append(new_piece)
            has_text = not is_blank
    return tuple(pieces)


def _split_blocks(text: str) -> list[tuple[int, int, bool]]:
    """Return neighbouring lines of prose, and code blocks, items and turns.

    Each is ``(start, end, is_prose)``.
    """
    lines = text.splitlines(keepends=True)
    speaker_names, has_one_initial = _find_speakers(lines)
    line_blocks: list[tuple[int, int, bool]] = []
    open_fence = ""
    block_kind = ""  # an item or a turn takes further lines, until a blank line or the next item or turn
    end = 0
    for line in lines:
        start = end
        end = end + len(line)
        fence_match = _FENCE_LINE.match(line)
        if open_fence:
            block_start = line_blocks[-1][0]
            line_blocks[-1] = (block_start, end, False)
            if fence_match and fence_match[1].startswith(open_fence):
                fence_end = fence_match.end()
                fence_info = line[fence_end:]
                if not fence_info.strip():
                    open_fence = ""
            continue
        line_kind = "fence"
        if not fence_match:
            line_kind = _line_kind(line, speaker_names, has_one_initial)
        first_character = line[0]
        is_text = line_kind == "text"
        continues_line = first_character.isspace() or first_character.islower()
        continues_turn = is_text and block_kind == "turn"
        continues_item = is_text and block_kind == "item" and continues_line
        is_prose = line_kind in ("text", "blank")
        if continues_turn or continues_item:
            block_start = line_blocks[-1][0]
            line_blocks[-1] = (block_start, end, False)
            continue
        block_kind = line_kind
        open_fence = fence_match[1] if fence_match else ""
        if is_prose and line_blocks and line_blocks[-1][2]:
            block_start = line_blocks[-1][0]
            line_blocks[-1] = (block_start, end, True)
        else:
            line_blocks.append((start, end, is_prose))
    return line_blocks


def _find_speakers(lines: list[str]) -> tuple[set[str], bool]:
    """Return who speaks, and whether one line alone begins as a person's initial does.

    Speakers are names before a colon twice, or all of them if every other line has one.
    """
    turn_names = []
    written_lines = initial_count = 0
    for line in lines:
        turn_match = _DIALOGUE_TURN.match(line)
        if turn_match:
            turn_name = turn_match[1].strip()
            turn_names.append(turn_name)
        written_lines += not line.isspace()
        initial_match = _NAME_INITIAL.match(line)
        initial_count += initial_match is not None
    name_counts = Counter(turn_names)
    turn_count = len(turn_names)
    if turn_count < 2 or turn_count < written_lines / 2:
        for name in turn_names:
            if name_counts[name] == 1:
                del name_counts[name]
    speaker_names = set(name_counts)
    has_one_initial = initial_count == 1
    return speaker_names, has_one_initial


def _line_kind(line: str, speaker_names: set[str], has_one_initial: bool) -> str:
    unbroken_line = line.rstrip("\r\n")
    if _TABLE_ROW.match(unbroken_line):
        return "row"
    turn_match = _DIALOGUE_TURN.match(line)
    if turn_match and turn_match[1].strip() in speaker_names:
        return "turn"
    is_initial = has_one_initial and _NAME_INITIAL.match(line)
    if _LIST_ITEM.match(line) and not is_initial:
        return "item"
    if line.strip():
        return "text"
    return "blank"


def _sentence_ends(text: str, start: int, end: int, language: str) -> list[int]:
    """Return the ends of sentences; one that a line break cuts in two is joined."""
    prose_text = text[start:end]
    end_offsets = [end]
    # A question mark ends a sentence also after an abbreviation ("in the U.S.? I think ...").
    for question_match in _QUESTION_END.finditer(prose_text):
        question_end = start + question_match.end()
        end_offsets.append(question_end)
    prose_passage = Passage(prose_text, id="")
    sentences = sentence_spans(prose_passage, language=language)
    for sentence, next_sentence in itertools.pairwise(sentences):
        previous_text = prose_text[sentence.start : sentence.end]
        unpadded_text = previous_text.rstrip(" \t")
        ends_paragraph = unpadded_text.endswith("\n\n")
        ends_in_one_line_break = previous_text.endswith("\n") and not ends_paragraph
        first_character = prose_text[next_sentence.start]
        stripped_text = previous_text.rstrip()
        starts_lower = first_character.islower()
        continues_sentence = starts_lower and not _SENTENCE_END.search(stripped_text)
        if not (ends_in_one_line_break and continues_sentence):
            sentence_end = start + sentence.end
            end_offsets.append(sentence_end)
    return end_offsets


@dataclass(frozen=True, slots=True)
class PassageSlice:
    """Neighbouring pieces of one passage, as one request shows them.

    Attributes:
        passage: The passage; the slice is all of it unless it is too long.
        pieces: The pieces in order.
        window: Of a longer piece only the two ends are shown.
    """

    passage: Passage
    pieces: tuple[Span, ...]
    window: int = 24_000

    @property
    def text(self) -> str:
        """All of its pieces."""
        start = self.pieces[0].start
        end = self.pieces[-1].end
        return self.passage.text[start:end]

    @property
    def piece_texts(self) -> list[str]:
        """The text of each piece."""
        text = self.passage.text
        piece_texts = []
        for piece in self.pieces:
            piece_text = text[piece.start : piece.end]
            piece_texts.append(piece_text)
        return piece_texts

    def lines(self, first_number: int | None) -> list[str]:
        """Return what a request shows; without a number it is the text as it is.

        Further lines of a piece or the header are indented, so that none of them looks
        like another piece. A line break is whatever the envelope shows as one, not a
        line feed alone.
        """
        lines = []
        if self.passage.header:
            header_lines = self.passage.header.splitlines()
            joined_header = _CONTINUATION_BREAK.join(header_lines)
            lines.append(f"({joined_header})")
        if first_number is None:
            whole_text = self.text.strip()
            return [*lines, whole_text]
        for number, text in enumerate(self.piece_texts, first_number):
            text = text.rstrip()
            if len(text) > self.window:
                half_length = max(1, self.window // 2)
                first_half = text[:half_length]
                last_half = text[-half_length:]
                hidden_length = len(text) - 2 * half_length
                text = f"{first_half} (... {hidden_length} characters ...) {last_half}"
            text_lines = text.splitlines()
            piece_line = _CONTINUATION_BREAK.join(text_lines)
            lines.append(f"{number} {piece_line}")
        return lines


_CONTINUATION_BREAK = "\n    "


def slice_passage(passage: Passage, options: Options) -> list[PassageSlice]:
    """Return slices within the options' limits; none for a blank passage.

    A piece that is too long is a slice alone.
    """
    if not passage.text.strip():
        return []
    piece_runs: list[list[Span]] = []
    pieces = split_pieces(passage, language=options.language)
    for piece in pieces:
        has_room = False
        if piece_runs:
            last_run = piece_runs[-1]
            run_start = last_run[0].start
            run_length = piece.end - run_start
            is_short = run_length <= options.max_characters
            has_room = is_short and len(last_run) < options.max_pieces
        if not has_room:
            piece_runs.append([])
        piece_runs[-1].append(piece)
    slices = []
    for piece_run in piece_runs:
        passage_slice = PassageSlice(
            passage=passage,
            pieces=tuple(piece_run),
            window=options.max_characters,
        )
        slices.append(passage_slice)
    return slices


def group_slices(
    passage_slices: Sequence[PassageSlice], longest_shared: int, options: Options
) -> list[list[PassageSlice]]:
    """Return the slices of each request.

    Neighbours of at most ``longest_shared`` characters share one as far as they fit.
    """
    slice_groups: list[list[PassageSlice]] = []
    group_size = group_pieces = 0
    for passage_slice in passage_slices:
        slice_size = len(passage_slice.text)
        piece_count = len(passage_slice.pieces)
        joint_size = group_size + slice_size
        joint_pieces = group_pieces + piece_count
        has_few_pieces = joint_pieces <= options.max_pieces
        has_room = joint_size <= options.max_characters and has_few_pieces
        is_alone = slice_size > longest_shared
        if not slice_groups or not has_room or is_alone:
            slice_groups.append([])
            group_size = group_pieces = 0
        slice_groups[-1].append(passage_slice)
        # A slice that shares no request leaves no room for the next one.
        group_size += options.max_characters if is_alone else slice_size
        group_pieces += piece_count
    return slice_groups


def find_context_spans(
    pieces: Sequence[Span], piece_texts: Sequence[str], kept_indices: set[int]
) -> list[Span]:
    """Return what of further pieces the kept pieces of a passage need, in any order."""
    context_spans = []
    for index in kept_indices:
        needed_starts = _needed_before(index, piece_texts, kept_indices)
        for needed_index in needed_starts.keys() - kept_indices:
            piece = pieces[needed_index]
            start = piece.start + needed_starts[needed_index]
            context_spans.append(replace(piece, start=start))
    return context_spans


def points_back(text: str) -> bool:
    """Whether a sentence begins with a pronoun or a connective."""
    return _POINTS_BACK.match(text) is not None


def _needed_before(
    index: int, piece_texts: Sequence[str], kept_indices: set[int]
) -> dict[int, int]:
    text = piece_texts[index]
    stripped_text = text.rstrip()
    if _TABLE_ROW.match(stripped_text) or _LIST_ITEM.match(text):
        return {}  # `DocumentReader` knows a table's header and a list's lead
    if text[0] in " \t":
        return _outer_lines(index, piece_texts)
    indices_before = range(index - _MAX_CHAINED_SENTENCES, index)
    if kept_indices.intersection(indices_before):
        return {}  # what it points to is most likely in what is kept right before
    needed_starts: dict[int, int] = {}
    while index and len(needed_starts) < _MAX_CHAINED_SENTENCES:
        if not points_back(piece_texts[index]):
            break
        previous_text = piece_texts[index - 1]
        stripped_text = previous_text.rstrip()
        is_table_row = _TABLE_ROW.match(stripped_text)
        if _ends_paragraph(previous_text) or is_table_row or not stripped_text:
            break
        index -= 1
        needed_starts[index] = 0
    return needed_starts


def _outer_lines(line: int, piece_texts: Sequence[str]) -> dict[int, int]:
    """Return the less indented lines that a line belongs to.

    A piece may end with one ("  image: a" and "staging:"): only that is needed then.
    """
    needed_starts = {}
    text = piece_texts[line]
    indent_width = len(text) - len(text.lstrip(" \t"))
    stop_line = max(-1, line - _MAX_LOOK_BACK)
    for previous_line in range(line - 1, stop_line, -1):
        # A line that does not begin with as much white space.
        outer_line = rf"(?m)^(?![ \t]{{{indent_width}}})[ \t]*\S"
        outer_match = re.search(outer_line, piece_texts[previous_line])
        if outer_match:
            needed_starts[previous_line] = outer_match.start()
            indent_width = len(outer_match[0]) - 1
    return needed_starts


def _ends_paragraph(text: str) -> bool:
    if not text.endswith("\n"):
        return False
    text_before = text[:-1]
    earlier_text = text_before.rstrip(" \t")
    return earlier_text.endswith("\n")
