"""Bars out of a results.jsonl, one SVG a figure: plot.py RESULTS DIR"""
import json, os, sys
from collections import defaultdict
from math import log10
from statistics import median

g = defaultdict(list)
for l in open(sys.argv[1]):
    if l.startswith("{"):
        r = json.loads(l)
        g[(r.get("label", r["peer"]), r["wl"], r.get("conns"), r.get("depth"))].append(r)

SINGLE, DEEP, HANDOFF, HOLD = ("pairs", 64, 1), ("pairs", 16, 32), ("handoff", 64, 1), ("hold", None, None)
FIGURES = [
    ("cpu-single", "Server CPU µs a pair, 64 connections, 1 in flight", SINGLE, "cpu_sched"),
    ("cpu-deep", "Server CPU µs a pair, 16 connections, 32 in flight", DEEP, "cpu_sched"),
    ("handoff", "Hand-off µs (median), 64 contenders", HANDOFF, "p50"),
    ("memory", "Bytes a held lock, 32-byte key", HOLD, "b_rss"),
]


def show(x):
    return f"{x:,.0f}" if x >= 100 else f"{x:.1f}" if x >= 10 else f"{x:.2f}"


def bars(title, rows):
    """Logarithmic, as a linear scale would show the slowest alone. Each bar begins at a power of ten."""
    low = 10 ** int(log10(min(x for _, x in rows)) // 1)
    high = max(x for _, x in rows)
    scale = 430 / max(log10(high / low), 0.3)
    height = 50 + 24 * len(rows)
    out = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 720 {height}" font-family="sans-serif" font-size="13">',
        f'<rect width="720" height="{height}" fill="white"/>',
        f'<text x="10" y="24" font-weight="bold">{title} (less is better; bars are logarithmic)</text>',
    ]
    for i, (label, x) in enumerate(rows):
        y = 40 + 24 * i
        width = max(2, log10(x / low) * scale)
        colour = "#0072b2" if label.startswith("lockstead") else "#b0b0b0"
        out.append(f'<text x="170" y="{y + 14}" text-anchor="end">{label}</text>')
        out.append(f'<rect x="180" y="{y}" width="{width:.1f}" height="18" fill="{colour}"/>')
        out.append(f'<text x="{186 + width:.1f}" y="{y + 14}">{show(x)}</text>')
    return "\n".join(out + ["</svg>", ""])


os.makedirs(sys.argv[2], exist_ok=True)
for name, title, at, k in FIGURES:
    rows = []
    for (label, *where), rs in g.items():
        if tuple(where) == at:
            # a server of many processes shares memory between them
            x = median(r["b_pss" if k == "b_rss" and label == "pg" else k] for r in rs)
            if x > 0:
                rows.append((label, x))
    if rows:
        with open(os.path.join(sys.argv[2], f"{name}.svg"), "w") as f:
            f.write(bars(title, sorted(rows, key=lambda row: row[1])))
