"""Words that turn a statement round. Data, no logic."""

from __future__ import annotations

from denoise_core.text.wordlists import listed

# Pairs of opposites: one side | the other. Forms are written out, because a stem would take "lower" to "low"
# and "rose" nowhere.
PAIRS = """
increase increases increased increasing rise rises rose risen rising grow grows grew grown growing climb
climbed climbing gain gained up higher upward raised raise raises steigen stieg gestiegen steigt zunahm
erhöht erhöhte wuchs aumentar aumentó aumenta aumentado subió sube creció augmenté augmente monté hausse
| decrease decreases decreased decreasing fall falls fell fallen falling decline declines declined declining
drop drops dropped dropping shrink shrank shrunk down lower lowered downward reduced reduce reduces sank
sinken gesunken sinkt fiel gefallen abnahm gesenkt verringert bajó baja disminuyó disminuye cayó descendió
diminué diminue baissé baisse ;
before prior vor bevor vorher avant antes
| after following nach nachdem nachher après después tras ;
won win wins winning winner beat beats defeated gewann gewonnen gewinnt ganó gana venció gagné
| lost lose loses losing loser verlor verloren verliert perdió pierde perdu ;
bought buy buys purchased acquired acquires acquire acquisition kaufte gekauft erwarb erworben compró
adquirió comprado acheté acquis
| sold sell sells selling sale verkaufte verkauft vendió vendido vendu ;
opened opens open opening öffnete geöffnet öffnet offen abrió abre abierto ouvert ouvre
| closed closes close closing shut schloss geschlossen schließt cerró cierra cerrado fermé ferme ;
entered enters enter entry eintritt entra entró entrada entre
| exited exits exit leaves left austritt sale salió salida sort ;
allowed allows permitted permits welcome legal erlaubt zulässig willkommen permitido permite permitida
autorisé permis
| forbidden prohibited prohibits banned bans illegal verboten untersagt unzulässig prohibido prohíbe
prohibida interdit ;
more longer larger bigger higher greater mehr más plus
| less fewer shorter smaller lower weniger menos moins ;
first erste erster ersten primero primera primer premier première
| last final letzte letzter letzten último última dernier dernière ;
north northern norden nördlich norte nord
| south southern süden südlich sur sud ;
east eastern osten östlich este est
| west western westen westlich oeste ouest ;
left-hand links izquierda gauche
| right-hand rechts derecha droite ;
accepted accepts accept approved approves approve upheld uphold passed angenommen bestätigte genehmigt
aceptó aprobó aprobado accepté approuvé
| rejected rejects reject refused refuses denied denies overturned overturn abgelehnt verweigert aufgehoben
rechazó rechazado negó rejeté refusé ;
succeeded success successful succeeds gelang erfolgreich éxito réussi
| failed fails failure unsuccessful scheiterte misslang fracasó fracaso échoué ;
began begins begin started starts start begann beginnt empezó comenzó comienza commencé début
| ended ends end finished finishes completed completes endete beendet terminó acabó concluyó terminé ;
top highest maximum best höchste größte maximal beste mejor mayor meilleur
| bottom lowest minimum worst niedrigste kleinste minimal schlechteste peor menor pire ;
true correct right wahr richtig verdadero correcto vrai
| false incorrect wrong falsch falso incorrecto faux ;
safe sicher seguro sûr
| unsafe dangerous hazardous unsicher gefährlich peligroso dangereux inseguro ;
hot warm heiß caliente chaud
| cold cool kalt frío froid ;
present vorhanden
| absent missing fehlt ;
alive
| dead ;
possible möglich posible
| impossible unmöglich imposible ;
appointed hired named ernannt eingestellt nombrado
| dismissed fired resigned entlassen despedido ;
loved liked praised cheered lobte gefeiert elogió
| hated disliked criticised criticized booed kritisierte criticó ;
inhale
| exhale ;
import imports imported
| export exports exported ;
arrived arrives arrival ankam llegó arrivé
| departed departs departure abfuhr abreise partió parti ;
married
| divorced ;
early earlier früh früher temprano tôt
| late later spät später tarde tard ;
inside within innerhalb dentro
| outside außerhalb fuera ;
strengthened stronger stärker
| weakened weaker schwächer ;
faster quicker schneller rápido
| slower langsamer lento ;
cheaper billiger barato
| dearer costlier expensive teurer caro ;
outperform outperforms outperformed
| underperform underperforms underperformed ;
better besser
| worse schlechter ;
milder
| harsher colder ;
exact
| approximate ;
include includes included including enthält incluye
| exclude excludes excluded excluding ausgeschlossen excluye ;
guilty convicted schuldig verurteilt culpable
| innocent acquitted freigesprochen inocente absuelto
"""
QUANTITIES = {
    "all": listed(
        """
        all every each always everyone everybody entire both immer alle aller allen jede jeder jedes stets
        sämtliche todo todos toda todas siempre cada toujours tous toutes chaque ambos beide
        """
    ),
    "most": listed(
        """
        most mostly majority usually meist meisten meistens mehrheit mayoría plupart
        """
    ),
    "some": listed(
        """
        some several sometimes partly occasionally einige manche mehrere teilweise manchmal algunos algunas
        varios parte quelques certains parfois
        """
    ),
    "few": listed(
        """
        few rarely seldom minority wenige selten minderheit pocos pocas raramente peu rarement
        """
    ),
    "only": listed(
        """
        only solely exclusively nur ausschließlich lediglich solo sólo solamente únicamente seulement
        uniquement
        """
    ),
}
MODALS = {
    "must": listed(
        """
        must shall required requires compulsory mandatory obliged obligatory muss müssen musste verpflichtet
        pflicht vorgeschrieben debe deben debía obligatorio obligatoria obligado doit doivent obligatoire
        """
    ),
    "may": listed(
        """
        may optional optionally permitted allowed darf dürfen durfte freiwillig puede pueden podrá peut
        peuvent facultatif opcional voluntario can
        """
    ),
    "should": listed(
        """
        should ought recommended advised sollte sollten empfohlen debería deberían recomendado devrait
        recommandé
        """
    ),
    "might": listed(
        """
        might could perhaps possibly maybe possible probably likely könnte könnten vielleicht möglicherweise
        wahrscheinlich posible quizá quizás podría podrían probablemente pourrait peut-être probablement
        suggest suggests suggested indicates planned plans considering considers expected predicted
        """
    ),
}
SURE = listed(
    """
    always bewiesen certain certainly comprobado confirmado confirmed confirms confirmé definitely
    demonstrated demonstrates demostrado démontré erwiesen established gesichert nachgewiesen probado prouvé
    proved proven proves shown
    """
)
DOUBTED = listed(
    """
    alleged allegedly angeblich argued argues believed claimed claims disputed erroneously erróneamente
    falsely fälschlich fälschlicherweise gerücht gerüchte hearsay hoax irrtümlich legend legendary legende
    legends leyenda légende misconception mistakenly mito myth mythe mythos myths presuntamente presunto
    prétendument purported reportedly rumeur rumor rumores rumors rumour rumoured rumours sage soi-disant
    speculated suggest suggested suggests supposed supposedly supuestamente supuesto thought vermeintlich
    wrongly
    """
)
# Words that mean it in some languages only, by these; under "" are those that mean too much else.
_ONLY = {
    "": "die left right close named present first following",
    "de": "vor nach links sage minimal maximal sicher schuldig",
    "de fr": "nord",
    "en": "can may all most more less up down later open claims thought",
    "en es": "sale",
    "es": "sur este baja parte mayor menor mito caro",
    "fr": "entre est plus sort avant tôt tard doit peu sud",
}
OF_LANGUAGE = {word: frozenset(key.split()) for key, words in _ONLY.items() for word in words.split()}
NO_SUPERLATIVE = listed(
    """
    best west east rest test guest request forest interest honest modest invest suggest protest contest
    arrest harvest latest nest chest vest pest quest priest digest conquest southwest northwest southeast
    northeast at least most est
    """
)
