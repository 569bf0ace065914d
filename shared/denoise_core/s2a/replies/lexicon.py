"""The words in which models say which pieces stay, in the languages they slip into. Data, no logic."""

from __future__ import annotations

from denoise_core.text.facts.kinds.numerals import COUNTING, ONES


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


# English, German, French, Spanish, Portuguese, Italian, Dutch, Russian, Polish, Turkish, Indonesian, Vietnamese,
# Arabic, Hindi; Chinese, Japanese and Korean as runs between digits.
ARTICLES_THAT_ARE_ONE = frozenset(ONES) | _words("um uma")
NUMBER = COUNTING | dict.fromkeys(ARTICLES_THAT_ARE_ONE, 1)

BECAUSE = (
    r"\b(?:because|since|as (?:they|it|these)|which|weil|da sie|parce que|car|puisque|porque|ya que"
    r"|perché|poiché|omdat"
    r"|потому что|так как|ponieważ|karena|çünkü)\b|لأن|因为|なので|ため"
)
CONJUNCTIONS = _words("and or und oder et ou y o e en и i dan ve & و और plus")

RANGE = _words(
    "- – — ‐ − ~ ～ 〜 ‑ to through thru until bis à hasta até a al fino tot до do sampai إلى से 至 到 から"
)

PIECE = _words(
    """
    piece pieces sentence sentences number numbers no nos item items line lines passage passages fragment fragments
    segment segments part parts stück stücke stuck satz sätze nummer nummern abschnitt abschnitte teil teile
    absatz absätze passagen textstück textstücke
    morceau morceaux phrase phrases numéro numéros extrait extraits partie parties
    pieza piezas frase frases oración oraciones número números fragmento fragmentos parte partes
    trecho trechos peça peças pedaço pedaços
    brano brani pezzo pezzi numero numeri frammento frammenti
    stuk stukken zin zinnen nummers deel delen
    фрагмент фрагменты фрагмента кусок куски предложение предложения номер номера часть части
    fragmenty zdanie zdania numery potongan kalimat nomor bagian parça parçalar cümle cümleler
    القطعة القطع الجملة الجمل رقم الأرقام الفقرة الفقرات الجزء الأجزاء والقطعة والفقرة والجملة قطعة فقرة जملة
    टुकड़ा टुकड़े वाक्य संख्या
    """
)
ANYBODY_DOES = _words("need needs must has have should can could would may might wants requires finds sees gets")
"""Verbs behind a "one" that is a person: "one needs 4"."""

DOCUMENT = _words(
    """
    document documents doc docs source sources dokument dokumente dokuments documento documentos documenti документ
    документы dokumen المستند المستندات الوثيقة مستند दस्तावेज़
    """
)
FILLER = _words(
    """
    and the are is it them i.e namely these those following as follows be of in both all's answer reply result
    only just id ids index indices my would i list text would ones need needs needed helps
    question questions there here should can be do asked that this which to
    i'd i'll i've i'm n'est n'a del من se
    zur zum beantwortung frage werden wird wurden sollten sollen können pour répondre question il faut para
    responder
    pregunta necesitan necesita hay domanda per rispondere servono
    und die der das sind ist nur sowie et les le la sont est seulement ainsi que de des du y e los las el son es
    solo o os as são é ed gli il lo sono è soltanto en zijn is и это только i są to oraz dan adalah ve و هي هو और हैं
    für aus from for with con da dal dalla dai nel nella aus dem den von vom
    """
) - _words("no")
KEEP = _words(
    """
    keep kept keeping select selected selecting needed need relevant retain retained include included useful
    helpful necessary required chosen choose stay stays helps help answers
    behalten behalte brauchen braucht relevant relevante relevanten benötigt nötig ausgewählt auswählen
    gebraucht bleiben wichtig
    garder gardez conserver conservés conservées pertinent pertinents pertinente pertinentes nécessaires utiles
    conservar conserve necesitan necesita mantener relevante relevantes necesarios necesarias útiles
    seleccionados seleccionadas
    manter necessários necessárias mantener
    tenere mantenere conservare rilevante rilevanti pertinente pertinenti necessari utili
    houden behouden оставить оставляем нужны нужен важны релевантны релевантный zachować zostawić potrzebne
    simpan relevan sakla gerekli ilgili احتفظ الاحتفاظ مطلوبة ذات صلة रखें प्रासंगिक
    """
)
DROP = _words(
    """
    drop dropped dropping remove removed removing irrelevant unneeded unnecessary exclude excluded excluding omit
    omitted omitting discard discarded out ignore ignored skip skipped unrelated delete deleted
    weglassen weggelassen entfernen entfernt streichen irrelevant irrelevante unwichtig ausgelassen auslassen
    supprimer supprimés retirer écarter écartés exclure exclus inutiles omettre omis
    quitar eliminar descartar omitir excluir irrelevantes eliminados excluidos fuera
    remover retirar descartar
    eliminare rimuovere scartare escludere tralasciare irrilevanti esclusi
    weglaten verwijderen убрать удалить исключить лишние usunąć pominąć hapus buang çıkar sil احذف حذف تستبعد
    استبعاد हटाएं
    """
)
NEGATION = _words(
    """
    not don't dont no aren't isn't never non nicht kein keine pas ne não niet не nie tidak değil लا لا غير ليست
    ليس नहीं
    """
)
NOTHING = _words(
    """
    none nothing nil empty keins keine keines nichts kein aucun aucune rien ninguno ninguna nada nenhum nenhuma
    nessuno nessuna niente geen niets нет ничего никакие żaden żadne nic hiçbiri yok لا لاشيء كوई
    """
) - _words("لا")
EVERYTHING = _words(
    "all everything every alle alles sämtliche tous toutes tout todos todas todo tutti tutte tutto все "
    "всё wszystkie "
    "semua hepsi tümü كل جميع الكل सभी"
)
EXCEPT = _words(
    """
    except excluding but besides without apart außer ausser bis-auf ohne sauf excepté hormis excepto salvo menos
    exceto tranne eccetto salvo behalve кроме oprócz kecuali hariç إلا ماعدا باستثناء सिवाय
    """
)
YES = _words(
    "yes y true ja oui sí si sim да tak ya evet نعم हां keep kept relevant ✓ ✔ ✅ ☑ 是 对 √ はい 예 stay stays"
)
NO = _words(
    "no n false nein non não nee нет nie tidak hayır لا नहीं drop irrelevant x out "
    "✗ ✘ ❌ ☒ ✖ 否 不 不是 いいえ 아니요"
)
FINAL = _words(
    "final finally conclusion endgültig endergebnis definitivo définitive finale finale окончательный "
    "最终 النهائية "
    "boxed therefore so thus hence"
)
ANSWER = _words(
    "answer antwort réponse respuesta resposta risposta antwoord ответ odpowiedź jawaban 答案 回答 الإجابة output"
)

# What may stand between digits in Chinese, Japanese and Korean, longest first; what it means stands beside it.
RUNS = (
    ("除了", "except"),
    ("以外", ""),
    ("之外", ""),
    ("不保留", "drop"),
    ("不需要", "drop"),
    ("不相关", "drop"),
    ("无关", "drop"),
    ("無関係", "drop"),
    ("不要", "drop"),
    ("不是", "no"),
    ("保留", "keep"),
    ("需要", "keep"),
    ("相关", "keep"),
    ("必要", "keep"),
    ("有用", "keep"),
    ("选择", "keep"),
    ("選択", "keep"),
    ("关连", "keep"),
    ("関連", "keep"),
    ("유지", "keep"),
    ("필요", "keep"),
    ("删除", "drop"),
    ("去掉", "drop"),
    ("排除", "drop"),
    ("削除", "drop"),
    ("除外", "drop"),
    ("제외", "drop"),
    ("삭제", "drop"),
    ("最终", "final"),
    ("全部", "all"),
    ("所有", "all"),
    ("すべて", "all"),
    ("全て", "all"),
    ("모두", "all"),
    ("没有", "none"),
    ("沒有", "none"),
    ("なし", "none"),
    ("없음", "none"),
    ("文档", "document"),
    ("文件", "document"),
    ("文書", "document"),
    ("문서", "document"),
    ("编号", "~piece"),
    ("番号", "~piece"),
    ("번호", "~piece"),
    ("片段", "~piece"),
    ("段落", "~piece"),
    ("句子", "~piece"),
    ("断片", "~piece"),
    ("조각", "~piece"),
    ("文章", "~piece"),
    ("答案", "answer"),
    ("回答", "answer"),
    ("する", ""),
    ("な", ""),
    ("から", "-"),
    ("まで", ""),
    ("です", ""),
    ("ます", ""),
    ("부터", "-"),
    ("까지", ""),
    ("입니다", ""),
    ("不", "no"),
    ("无", "none"),
    ("無", "none"),
    ("是", "yes"),
    ("否", "no"),
    ("至", "-"),
    ("到", "-"),
    ("第", ""),
    ("段", "~piece"),
    ("号", "~piece"),
    ("条", "~piece"),
    ("句", "~piece"),
    ("项", "~piece"),
    ("番", "~piece"),
    ("번", "~piece"),
    ("和", ""),
    ("与", ""),
    ("及", ""),
    ("以", ""),
    ("的", ""),
    ("为", ""),
    ("了", ""),
    ("都", ""),
    ("应", ""),
    ("该", ""),
    ("と", ""),
    ("は", ""),
    ("を", ""),
    ("の", ""),
    ("が", ""),
    ("目", ""),
    ("와", ""),
    ("과", ""),
    ("은", ""),
    ("는", ""),
)
