"""The same as a picture: for each shape, how often one rank's speed each mode reaches over the speed of the link."""

import html
import math

_WIDTH, _HEIGHT, _MARGIN, _LEGEND = 460, 320, 50, 150
_COLOURS = ("#1b6ca8", "#d1495b", "#3a7d44", "#edae49", "#6a4c93", "#8d6e63", "#00798c", "#555555")


def svg(records):
    """An SVG file's text."""
    shapes = list(dict.fromkeys(record["shape"] for record in records))
    modes = list(dict.fromkeys(record["mode"] for record in records if "times_one_rank" in record))
    linked = [record for record in records if record["link_gbit"] is not None and "times_one_rank" in record]
    links = sorted({record["link_gbit"] for record in linked})
    top = max([2.0, *(record["times_one_rank"] for record in linked)]) * 1.05
    width = len(shapes) * _WIDTH + _LEGEND
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{_HEIGHT}" font-family="sans-serif" font-size="12">',
        f'<rect width="{width}" height="{_HEIGHT}" fill="white"/>',
    ]
    for column, shape in enumerate(shapes):
        parts += _panel(column * _WIDTH, shape, [r for r in linked if r["shape"] == shape], links, modes, top)
    for number, mode in enumerate(modes):
        y = _MARGIN + 18 * number
        x = len(shapes) * _WIDTH
        parts.append(f'<line x1="{x}" y1="{y}" x2="{x + 22}" y2="{y}" {_stroke(number, mode)}/>')
        parts.append(_text(x + 28, y + 4, mode))
    return "\n".join([*parts, "</svg>"]) + "\n"


def _panel(left, shape, records, links, modes, top):
    low, high = math.log10(min(links)), math.log10(max(links))

    def x_of(link):
        share = (math.log10(link) - low) / (high - low) if high > low else 0.5
        return left + _MARGIN + share * (_WIDTH - 2 * _MARGIN)

    def y_of(times):
        return _HEIGHT - _MARGIN - times / top * (_HEIGHT - 2 * _MARGIN)

    parts = [_text(left + _WIDTH / 2, _MARGIN / 2, f"{shape}: times one rank", "middle")]
    for times in [0.5 * step for step in range(int(top / 0.5) + 1)]:
        y = y_of(times)
        shade = "#333333" if times == 1 else "#dddddd"
        parts.append(f'<line x1="{left + _MARGIN}" y1="{y:.1f}" x2="{left + _WIDTH - _MARGIN}" y2="{y:.1f}" stroke="{shade}"/>')
        parts.append(_text(left + _MARGIN - 6, y + 4, f"{times:g}", "end"))
    for link in links:
        parts.append(_text(x_of(link), _HEIGHT - _MARGIN + 18, f"{link:g}", "middle"))
    parts.append(_text(left + _WIDTH / 2, _HEIGHT - 10, "Gbit/s", "middle"))
    for number, mode in enumerate(modes):
        points = sorted((r["link_gbit"], r["times_one_rank"]) for r in records if r["mode"] == mode)
        path = " ".join(f"{x_of(link):.1f},{y_of(times):.1f}" for link, times in points)
        parts.append(f'<polyline points="{path}" fill="none" {_stroke(number, mode)}/>')
        parts += [f'<circle cx="{x_of(link):.1f}" cy="{y_of(times):.1f}" r="3" fill="{_colour(number)}"/>' for link, times in points]
    return parts


def _colour(number):
    return _COLOURS[number % len(_COLOURS)]


def _stroke(number, mode):
    dashes = ' stroke-dasharray="5 3"' if "overlap" in mode else ""
    return f'stroke="{_colour(number)}" stroke-width="2"{dashes}'


def _text(x, y, text, anchor="start"):
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}">{html.escape(text)}</text>'
