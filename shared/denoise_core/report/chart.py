"""Line charts and points with intervals as inline SVG: no script, colours by the page's stylesheet."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

WIDTH, HEIGHT = 640, 320
LEFT, RIGHT, TOP, BOTTOM = 48, 24, 12, 42
DASHES = ("none", "7 3", "2 3", "9 3 2 3", "12 4")  # lines differ without colour too


@dataclass(frozen=True, slots=True)
class Line:
    """One series. ``path`` is the SVG path of its line, ``points`` are (x, y, y low, y high) in SVG units."""

    name: str
    style: int  # 1 to 5
    dash: str
    path: str
    points: tuple[tuple[float, float, float, float], ...]


@dataclass(frozen=True, slots=True)
class Chart:
    """What ``chart.html`` draws. ``ticks`` are (place, label)."""

    title: str
    x_label: str
    y_label: str
    lines: tuple[Line, ...]
    x_ticks: tuple[tuple[float, str], ...]
    y_ticks: tuple[tuple[float, str], ...]


def curves(title: str, series: Mapping[str, Sequence[tuple[float, float]]], x_label: str, y_label: str) -> Chart:
    """Lines of shares over shares, both axes 0 to 1, shown in percent."""
    lines = []
    for n, (name, points) in enumerate(series.items()):
        places = [(_x(x, 0, 1), _y(y, 0)) for x, y in points]
        path = " ".join(f"{'L' if i else 'M'}{x:.1f} {y:.1f}" for i, (x, y) in enumerate(places))
        lines.append(Line(name, n % 5 + 1, DASHES[n % 5], path, ()))
    ticks = tuple((_x(i / 4, 0, 1), f"{25 * i} %") for i in range(5))
    return Chart(title, x_label, y_label, tuple(lines), ticks, _rises(0))


def points(
    title: str, series: Mapping[str, tuple[float, float, float, float]], x_label: str, y_label: str
) -> Chart:
    """One point a series: (x, share, low, high); x from 0 to its largest."""
    most = max((x for x, *_ in series.values()), default=1.0) or 1.0
    least = min((low for *_, low, _ in series.values()), default=0.0)
    floor = max(0.0, int(10 * least - 0.5) / 10)
    lines = tuple(
        Line(
            name,
            n % 5 + 1,
            DASHES[n % 5],
            "",
            ((_x(x, 0, 1.05 * most), _y(share, floor), _y(low, floor), _y(high, floor)),),
        )
        for n, (name, (x, share, low, high)) in enumerate(series.items())
    )
    ticks = tuple((_x(most * i / 4, 0, 1.05 * most), f"{most * i / 4:,.0f}") for i in range(5))
    return Chart(title, x_label, y_label, lines, ticks, _rises(floor))


def _x(value: float, low: float, high: float) -> float:
    return LEFT + (value - low) / (high - low) * (WIDTH - LEFT - RIGHT)


def _y(value: float, floor: float) -> float:
    return HEIGHT - BOTTOM - (value - floor) / (1 - floor) * (HEIGHT - TOP - BOTTOM)


def _rises(floor: float) -> tuple[tuple[float, str], ...]:
    steps = [floor + (1 - floor) * i / 4 for i in range(5)]
    return tuple((_y(s, floor), f"{100 * s:.0f} %") for s in steps)
