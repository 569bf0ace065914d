"""Units of measure and money: what each is called, and which can be turned into which."""

from __future__ import annotations


def _table(text: str) -> dict[str, tuple[str, float]]:
    """Lines of ``dimension factor: names``."""
    found: dict[str, tuple[str, float]] = {}
    for line in text.strip().splitlines():
        head, _, names = line.partition(":")
        dimension, factor = head.split()
        for name in names.split():
            found[name.replace("_", " ")] = (dimension, float(factor))
    return found


UNITS = _table(
    """
    share 0.01: % percent prozent pct percentage pourcent
    share 0.001: ‰ promille
    length 1: m metre metres meter meters metern mètre mètres metro metros 米
    length 1000: km kilometre kilometres kilometer kilometers kilometern kilomètre kilomètres
    length 1000: kilómetro kilómetros 公里
    length 0.01: cm centimetre centimetres centimeter centimeters zentimeter centimètres centímetros 厘米
    length 0.001: mm millimetre millimetres millimeter millimeters millimètres milímetros 毫米
    length 0.3048: ft foot feet fuß pied pieds pie pies
    length 0.0254: inch inches zoll pouces pulgadas
    length 1609.344: mile miles meile meilen milles millas mi
    length 1852: nmi
    length 0.9144: yard yards
    mass 1: g gram grams gramm gramme grammes gramo gramos 克
    mass 1000: kg kilo kilos kilogram kilograms kilogramm kilogramme kilogrammes kilogramo kilogramos 公斤 千克
    mass 0.001: mg milligram milligrams milligramm milligramme milligrammes miligramos 毫克
    mass 0.000001: µg μg mcg ug microgram micrograms mikrogramm microgramme microgrammes microgramos
    mass 1000000: t tonne tonnes tonnen tonelada toneladas ton tons 吨
    mass 453.592: lb lbs
    mass 28.3495: oz ounce ounces unze unzen
    time 1: s sec secs seconds sekunde sekunden secondes segundos 秒
    time 0.001: ms millisecond milliseconds millisekunden
    time 60: min mins minute minutes minuten minuto minutos 分钟
    time 3600: h hr hrs hour hours stunde stunden heure heures hora horas 小时
    time 86400: day days tag tage tagen jour jours día días 天
    time 604800: week weeks woche wochen semaine semaines semana semanas 周
    time 2629800: month months monat monate monaten monats mois mes meses 个月
    time 31557600: year years jahr jahre jahren an ans année années año años
    speed 1: km/h kmh kph stundenkilometer
    speed 1.609344: mph
    volume 1: l litre litres liter liters litern litro litros 升
    volume 3.785: gallon gallons
    volume 0.001: ml millilitre millilitres milliliter milliliters mililitros 毫升
    area 10000: ha hectare hectares hektar hectárea hectáreas
    degree 1: ° degree degrees grad degré degrés grado grados
    celsius 1: °c celsius
    fahrenheit 1: °f fahrenheit
    kelvin 1: kelvin
    power 1: w watt watts
    power 1000: kw kilowatt kilowatts
    power 1000000: mw megawatt megawatts
    charge 1: mah
    data 1: kb kilobyte kilobytes
    data 1000: mb megabyte megabytes
    data 1000000: gb gigabyte gigabytes
    data 1000000000: tb terabyte terabytes
    usd 1: $ usd dollar dollars dólares dólar us$
    eur 1: € eur euro euros
    gbp 1: £ gbp sterling
    jpy 1: ¥ yen jpy
    cny 1: 元 yuan rmb renminbi
    chf 1: chf franken
    inr 1: ₹ rupee rupees inr
    pound 1: pound pounds pfund livre livres libra libras
    """
)
MONEY_SIGNS = frozenset("$€£¥₹")
_POUNDS = frozenset(("gbp", "mass", "pound"))


def comparable(one: str, two: str) -> tuple[float, float] | None:
    """The factors that bring values in ``one`` and ``two`` to one unit; None when they measure different things.

    A value without a unit compares with anything: the unit may stand elsewhere.
    """
    if not one or not two:
        return 1.0, 1.0
    (a, of_one), (b, of_two) = UNITS[one], UNITS[two]
    if a == b:
        return of_one, of_two
    if "degree" in (a, b) and {a, b} <= {"degree", "celsius", "fahrenheit", "kelvin"}:
        return 1.0, 1.0
    if "pound" in (a, b) and {a, b} <= _POUNDS:
        return (453.592 if a == "pound" and b == "mass" else of_one), (
            453.592 if b == "pound" and a == "mass" else of_two
        )
    return None
