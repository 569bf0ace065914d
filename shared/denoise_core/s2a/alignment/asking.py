"""The words that ask, that believe and that push, and what a question asks for. Data, and its look-up.

English, German, French, Spanish, Portuguese, Italian, Dutch, Russian, Chinese, Japanese and Arabic.
"""

from __future__ import annotations

import re

# What is asked for; the first that fits. `polar` is a question of yes or no, `request` an order.
_KINDS = (
    ("when", r"when(?:s|'s)?|wen(?=\s{1,9}(?:is|was|are|did|do|does|will)\b)"
             r"|(?:in|on|at|from|since|until|by)?\s?(?:what|which) (?:year|date|day|month|century|time)|wann"
             r"|(?:in )?welche[ms]r? (?:jahr|tag|monat|jahrhundert)|quand|en quelle année|quelle année"
             r"|à quelle (?:heure|date)"
             r"|cuándo|cuando|(?:a )?qué hora|en qué (?:año|fecha)|qué (?:año|día)|quando|em que ano|in che anno"
             r"|in quale anno|wanneer|когда"
             r"|в каком году|何时|什么时候|哪一?年|几时|いつ|何年|متى"),
    ("where", r"where(?:s|'s)?|were(?=\s{1,9}(?:is|was|are|did|do|does|can|could|has|have|had|will|would"
              r"|should)\b)|whre"
     r"|in (?:what|which) (?:city|country|town|place|state)|wo|woher|wohin|où|dónde|donde"
     "|adónde|onde|dove"
              r"|waar|где|куда|откуда|哪里|哪儿|在哪|どこ|أين"),
    ("why", r"why|how come|for what reason|warum|wieso|weshalb|pourquoi|por qué|por que|porqué|perché"
     "|waarom|почему|зачем"
            r"|为什么|为何|なぜ|どうして|لماذا"),
    ("how many", r"how (?:many|much)|what number of|wie ?viele?n?|combien|cuántos?|cuántas?|cuanto?s?"
     "|cuanta?s?|quantos?|quantas?"
                 r"|quanti|quante|quanto|quanta|hoeveel|сколько|多少|几个|几|いくつ|何人|何個|いくら|كم"),
    ("how far", r"how (?:long|far|tall|high|old|big|large|fast|often|deep|wide|heavy|hot|cold|expensive"
     "|soon|late|likely|well"
                r"|strong|thick|loud|safe|common|quickly)|wie (?:lange?|weit|hoch|alt|groß|gross"
                r"|schnell|oft|tief|breit|schwer)"
                r"|多久|多长|多高|多远|多大|どのくらい|どれくらい"),
    ("how", r"how|in what way|wie|comment|cómo|como|come|hoe|как|怎么|怎样|如何|どう|どのように|どうやって|كيف"),
    ("who", r"(?:by |to |for |with |from )?who(?:m|se)?|(?:von |mit |für )?wer|(?:von )?wem|wen|wessen"
     "|(?:par |à |de )?qui"
            r"|(?:por |a |de )?quién(?:es)?|(?:por |a )?quien(?:es)?|quem|chi|wie is|кто|кого|кем|谁|哪位"
            r"|誰|だれ|من"),
    ("what", r"whats?|what's|waht|wich|which|(?:in |on |at |of |from )?(?:what|which)|was|welche[rsnm]?|que|quoi"
     "|quel(?:le)?s?|lequel|qué|cuál(?:es)?"
             r"|cual(?:es)?|o que|qual|quais|quale|quali|che|che cosa|cosa|wat|welke?|что|како[йегм]\w*"
             r"|какие|какая|什么|哪个|哪些|哪"
             r"|何|なに|どの|どれ|ما|ماذا|أي"),
)  # fmt: skip
_POLAR = (
    r"is|are|am|was|were|do|does|did|has|have|had|can|could|may|might|must|shall|should|will|would|isn't|aren't|wasn't|weren't"
    r"|don't|doesn't|didn't|hasn't|haven't|can't|couldn't|shouldn't|won't|wouldn't|if|whether"
    r"|ist|sind|war|waren|hat|haben|hatte|kann|können|darf|dürfen|muss|müssen|soll|sollte|wird|werden"
    r"|wurde|wurden|gibt es|ob"
    r"|est-ce que?|est|sont|était|a-t-il|a-t-elle|peut-on|doit-on|faut-il|peut|doit|y a-t-il|si|est-il|est-elle"
    r"|es|son|está|están|fue|era|ha|han|hay|puede|puedo|se puede|debe|debo|tiene|é|são|foi|há|pode|posso|deve"
    r"|è|sono|era|ha|hanno|può|posso|si può|deve|c'è|is er|zijn|heeft|kan|mag|moet|ли|можно ли|правда ли|هل"
)
_PREPOSITION = (
    r"(?:(?:in|on|at|by|to|for|from|with|of|under|since|until|an|am|im|bei|mit|von|zu|seit|bis|en|à"
    r"|de|pour|avec|par|depuis|por|con|para|a|desde|di|da|per|em|com|в|на|с|для)\s{1,9})?"
)
_STARTS = [
    (kind, re.compile(rf"\A[\s¿¡\"'“„«(\[*_-]{{0,12}}+{_PREPOSITION}(?:{words})(?![\w])", re.IGNORECASE))
    for kind, words in _KINDS
]
_POLAR_START = re.compile(rf"\A[\s¿¡\"'“„«(\[*_-]{{0,12}}+(?:{_POLAR})(?![\w'’])", re.IGNORECASE)
_ENGLISH_WAS = re.compile(
    r"\A\W{0,12}was\s{1,9}(?:it|he|she|the|this|that|there|an?|his|her|its|their|our|my|any|not|(?-i:[A-Z][^\W\d_]+))\b",
    re.IGNORECASE,
)
"""Not the German word for "what"."""
_CJK_KINDS = [
    (k, re.compile("|".join(w for w in words.split("|") if re.search(r"[\u3040-\u9fff]", w))))
    for k, words in _KINDS
]
_CJK = re.compile(r"[\u3040-\u30ff\u3400-\u9fff]")

BEGINS = re.compile(
    rf"(?<![\w'’]){_PREPOSITION}(?:{'|'.join(w for _, w in _KINDS)}|{_POLAR})(?![\w])", re.IGNORECASE
)
"""Where a question may begin within a sentence."""

WRAPPER = re.compile(
    r"\A\W*(?:(?:so|ok|okay|well|now|hi|hello|hey|also|and|but|then)\b[\s,:!.-]*)*(?:if (?:possible"
    r"|you (?:don't|do not) mind|it(?:'s| is) not too much (?:trouble|to ask)"
    r"|i may ask)\b[\s,]*)?(?:please\s{1,9}|pls\s{1,9}|kindly\s{1,9})?(?:"
    r"(?:can|could|would|will) (?:you|someone|anyone|u)(?: please| kindly| maybe)? (?:tell|explain to"
    r"|show|let|give|remind)(?: me| us)?(?: know)?"
    r"|(?:please |pls |just )?(?:tell|let) (?:me|us)(?: know)?|do you (?:happen to )?know|i(?:'d"
    r"| would) (?:like|love|want) to know|i want to know"
    r"|i(?:'m| am| was)? (?:just )?wonder(?:ing|ed)?|any idea|who knows|i need to know|my question is"
    r"|the question is|what i want to know is"
    r"|(?:können|könnten|kannst|könntest) (?:sie|du) (?:mir|uns)(?: bitte)? (?:sagen|verraten|erklären"
    r"|mitteilen)|sag(?:en sie)? mir(?: bitte)?"
    r"|weiß(?:t du| jemand)|wissen sie|ich (?:möchte|würde gern(?:e)?) wissen|ich frage mich"
    r"|(?:pourriez|pouvez|peux|pourrais)-(?:vous|tu)(?: s'il vous plaît)? (?:me|nous) (?:dire|indiquer"
    r"|expliquer)|dites?-moi|savez-vous|sais-tu"
    r"|j'aimerais savoir|je voudrais savoir|je me demande"
    r"|(?:podría|puede|puedes|podrías)(?: usted)?(?: por favor)? (?:decirme|decirnos|explicarme"
    r"|indicarme)|dime|dígame|sabes|sabe usted"
    r"|me gustaría saber|quisiera saber|me pregunto|poderia me dizer|pode me dizer|você sabe|gostaria de saber"
    r"|(?:potrebbe|puoi|può|potresti) (?:dirmi|spiegarmi)|dimmi|sai|vorrei sapere|mi chiedo"
    r"|(?:kunt u|kun je) (?:me|mij) (?:zeggen|vertellen)|скажи(?:те)?(?: мне)?|подскажи(?:те)?|请问|请告诉我"
    r"|你知道|教えてください|هل يمكنك إخباري"
    r")(?:,| please| bitte| por favor| s'il vous plaît| per favore|\s)*",
    re.IGNORECASE,
)

HINT = re.compile(
    r"\A\W*(?:(?:but |so |and |right, |hey, )?(?:isn't it|is it not|isn't that|aren't|wasn't it"
    r"|wouldn't (?:you|it)|don't you|doesn't it|didn't it"
    r"|(?:could|might|can) it be that|(?:please |just )?(?:say|tell me|admit"
    r"|confirm)(?: that)? (?:it's|it is|i'm|i am|i was|yes|no)|do you agree|you agree|agree"
    r"|am i (?:right|wrong|mistaken|crazy)|is (?:that|this|it) (?:right|correct|true|not so)|right"
    r"|correct|no|yes|true|really|or not|eh|huh"
    r"|(?:surely|certainly) (?:it|you)|is my (?:guess|hunch|memory)|was i right|can you confirm"
    r"|could you confirm|please confirm|confirm"
    r"|stimmt(?:'s| das| es)?|oder|nicht wahr|richtig|habe ich recht|liege ich richtig"
    r"|ist das (?:richtig|korrekt|so)|meinst du nicht|findest du nicht"
    r"|n'est-ce pas|ai-je raison|non|pas vrai|c'est (?:bien )?(?:ça|juste|correct)|n'êtes-vous pas"
    r"|tu ne trouves pas|vous ne trouvez pas"
    r"|verdad|no es (?:así|cierto|verdad)|tengo razón|cierto|no crees|no te parece|¿?no|não é|né|certo"
    r"|vero|giusto|ho ragione|non è vero|non credi"
    r"|toch|klopt dat|heb ik gelijk|верно|правда|не так ли|对吗|对吧|是吧"
    r"|是不是|没错吧|ですよね|だよね|أليس كذلك|صحيح)\b)",
    re.IGNORECASE,
)
"""A question that pushes an answer or asks to be agreed with."""

BELIEF = re.compile(
    r"\b(?:i(?:'m| am| was|'d| would| have|'ve|'ll)? (?:\w+ ){0,3}?(?:think|thought|believe|guess\w*"
    r"|suppose|reckon|bet|assume|suspect|feel|doubt|imagine|expect|hope|hoping"
    r"|fear|sure|certain|convinced|positive|confident|inclined|say|said|remember|recall|heard|read"
    r"|swear|make it|figure|mean|prefer|love|like|hate|adore|know|tend)"
    r"|my (?:\w+ ){0,3}(?:guess|theory|view|opinion|hunch|money|feeling|belief|impression|memory|friend"
    r"|sister|brother|father|mother|dad|mum|mom|uncle|aunt"
    r"|teacher|colleague|boss|doctor|wife|husband|neighbou?r|professor|grand\w+)|in my (?:view|opinion"
    r"|eyes|mind)|to my mind|if you ask me|imo|imho"
    r"|surely|probably|presumably|obviously|clearly|certainly|undoubtedly|definitely|maybe|perhaps"
    r"|of course|no doubt|apparently|supposedly"
    r"|everyone (?:knows|says|agrees)|everybody|people say|they say|we all know|it must be|must be"
    r"|has to be|feel free to agree|agree with me|confirm that|say it|admit"
    r"|ich (?:\w+ ){0,3}?(?:glaube|denke|meine|finde|schätze|vermute|tippe|rate|hoffe|würde sagen"
    r"|bin (?:mir )?(?:ziemlich |ganz |recht )?sicher|nehme an|dachte|meinte|zweifle|bezweifle|liebe"
    r"|mag|hasse|weiß)"
    r"|meiner (?:meinung|ansicht)|meines erachtens|mein(?:e|em|en|er)? \w+|sicher(?:lich)?|bestimmt"
    r"|wahrscheinlich|vermutlich|offensichtlich|natürlich|vielleicht|wohl|jeder weiß|alle sagen"
    r"|je (?:ne )?(?:pense|crois|trouve|suppose|dirais|suis (?:\w+ )?(?:sûre?|certaine?|convaincue?)"
    r"|parie|doute|imagine)|à mon avis|selon moi|d'après moi|mon \w+|ma \w+|sûrement|sans doute"
    r"|probablement|évidemment|peut-être|bien sûr|tout le monde"
    r"|(?:yo )?(?:creo|pienso|opino|supongo|diría|apuesto|imagino|dudo|espero|juraría"
    r"|estoy (?:\w+ )?segur[oa])|en mi opinión|a mi juicio|me parece|para mí|mi \w+|seguro|seguramente"
    r"|probablemente|quizás?|tal vez|obviamente|claro|por supuesto|todo el mundo"
    r"|(?:eu )?(?:acho|penso|creio|suponho|diria|aposto|duvido|tenho certeza)|na minha opinião"
    r"|provavelmente|talvez|certamente|claro|todo mundo"
    r"|(?:io )?(?:credo|penso|ritengo|suppongo|direi|scommetto|dubito|immagino"
    r"|sono (?:\w+ )?(?:sicur[oa]|convint[oa]))|secondo me|a mio (?:avviso|parere)|probabilmente|forse"
    r"|sicuramente|ovviamente|certo|tutti sanno"
    r"|ik (?:denk|geloof|vind|gok|vermoed|weet zeker)|volgens mij|naar mijn mening|waarschijnlijk"
    r"|misschien|natuurlijk"
    r"|я (?:думаю|считаю|полагаю|уверена?|помню|сомневаюсь)|по-моему|мне кажется|наверное|конечно"
    r"|очевидно|все знают)\b"
    r"|我(?:觉得|认为|想|猜|相信|记得|肯定|怀疑|敢)|肯定是|应该是|大概|也许|可能是|显然|大家都"
    r"|と思う|と思い|でしょう|はず|たぶん|きっと|أظن|أعتقد|في رأيي"
    r"|برأيي|متأكد|ربما|أكيد|بالتأكيد|الجميع",
    re.IGNORECASE,
)
"""A statement of what the person, or someone the person quotes, takes to be so."""

PRONOUN = re.compile(
    r"\b(?:it|its|he|she|they|him|her|them|his|hers|their|this|that|these|those|there|one|ones|er|sie|es|ihn|ihm|ihr|ihre|sein|seine|dies\w*|das|dort|davon|damit"
    r"|il|elle|ils|elles|lui|leur|ça|cela|y|en|le|la|les|l'|él|ella|ellos|ellas|su|sus|esto|eso|lo|le|les|\w+(?:arlo|arla|erlo|erla|irlo|irla|arlos|arlas)"
    r"|ele|ela|isso|lui|lei|loro|suo|sua|ciò|questo|lo|la|hij|zij|ze|het|hun|он|она|оно|они|его|её|их|это)\b|他|她|它|这|那|其|それ|これ|彼|彼女|ه\b|هو|هي|ذلك|هذا",
    re.IGNORECASE,
)


def kind_of(text: str) -> str | None:
    """What a question asks for, by how it begins; None for what does not begin as a question does."""
    if _CJK.search(text):
        for kind, pattern in _CJK_KINDS:
            if pattern.pattern and pattern.search(text):
                return kind
        return "polar" if re.search(r"吗|嗎|か[?？。]?\s{0,9}\Z|是否", text) else None
    if _ENGLISH_WAS.match(text):
        return "polar"
    for kind, pattern in _STARTS:
        if pattern.match(text):
            return kind
    return "polar" if _POLAR_START.match(text) else None
