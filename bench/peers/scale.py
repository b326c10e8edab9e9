"""Lockstead at scale against the targets: medians out of one scale.jsonl."""
import json, sys
from collections import defaultdict
from statistics import median

MODES = ("lockstead", "lockstead-process")

# (mode, what) -> how many -> the lines about it
seen = defaultdict(lambda: defaultdict(list))
for l in open(sys.argv[1]):
    if l.startswith("{"):
        r = json.loads(l)
        wl = r["wl"]
        if wl == "pairs":
            wl = f"{'held' if 'held' in r else 'keys'} {r['conns']}x{r['depth']}"
            n = r["held"] if "held" in r else r["key_bytes"]
        else:
            n = r["n"]
        seen[r["label"], wl][n].append(r)


def each(mode, wl, field):
    """Number -> median of the field."""
    return {n: median(r[field] for r in rs) for n, rs in sorted(seen[mode, wl].items())}


def shown(x):
    return f"{x:,.0f}" if abs(x) >= 100 else f"{x:.1f}" if abs(x) >= 10 else f"{x:.2f}"


def row(what, figure, of, limits=None, below=False):
    """of: mode -> a number, or none. limits: at most (or below) this, in each mode."""
    cells, met = [], []
    for mode, limit in zip(MODES, limits or (None, None)):
        x = of(mode)
        cells.append("-" if x is None else shown(x))
        good = x is not None and limit is not None and (x < limit if below else x <= limit)
        met.append("-" if x is None or limit is None else "yes" if good else "**no**")
    sign = "<" if below else "≤"
    target = "-" if limits is None else f"{sign} {' / '.join(dict.fromkeys(map(str, limits)))}"
    print(f"| {what} | {figure} | {' | '.join(cells)} | {target} | {' / '.join(met) if limits else '-'} |")


def one_each(what, figure, wl, field, limits=None, below=False):
    """A row for each number that was measured in any mode; {} stands for the number."""
    numbers = sorted({n for mode in MODES for n in seen[mode, wl]})
    for n in numbers:
        row(what.format(f"{n:,}"), figure, lambda mode: each(mode, wl, field).get(n), limits, below)


def flat(what, figure, wl, field):
    """How far the values are from the middle of the least and the greatest."""

    def of(mode):
        xs = each(mode, wl, field).values()
        return (max(xs) - min(xs)) / (max(xs) + min(xs)) * 100 if len(xs) > 1 else None

    row(what, f"{figure}: flat within ± %", of, (10, 10))


print("| what | figure | none | process | target | met |")
print("|---|---|---|---|---|---|")
one_each("{} waiters on one key", "hand-off p50 µs", "handoff-waiters", "p50")
flat("all of these", "hand-off p50", "handoff-waiters", "p50")
one_each("{} waiters on one key", "hand-off p99 µs", "handoff-waiters", "p99")
flat("all of these", "hand-off p99", "handoff-waiters", "p99")
one_each("{} waiters on one key", "server CPU µs a grant", "handoff-waiters", "cpu_us")
flat("all of these", "server CPU a grant", "handoff-waiters", "cpu_us")
one_each("{} keys held", "server CPU µs a pair, 64 connections, 1 in flight", "held 64x1", "cpu_sched")
flat("all of these", "server CPU a pair", "held 64x1", "cpu_sched")
one_each("{} keys held", "server CPU µs a pair, 16 connections, 32 in flight", "held 16x32", "cpu_sched")
for n in sorted({n for mode in MODES for n in seen[mode, "held"] if n >= 100_000}):
    row(f"{n:,} keys held", "bytes RSS a key", lambda mode: each(mode, "held", "b_rss").get(n),
        (120, 130) if n == 1_000_000 else None)
for wl, how in (("end-second", "one second"), ("end-instant", "one instant")):
    what = "{} leases end within " + how
    one_each(what, "spread ms", wl, "spread_ms")
    one_each(what, "latest, ms late", wl, "late_max_ms")
    one_each(what, "server CPU ms", wl, "cpu_ms")
    one_each(what, "latest, ms late beyond the work", wl, "beyond_ms", (50, 50))
    one_each(what, "of the sample, early", wl, "early", (0, 0))
    one_each(what, "ping p99 ms", wl, "ping_p99_ms", (20, 20), below=True)
    one_each(what, "ping max ms", wl, "ping_max_ms")
one_each("{} keys acquired at once", "keys a second", "grow", "rate")
one_each("{} keys acquired at once", "ping p99 ms", "grow", "ping_p99_ms")
one_each("{} keys acquired at once", "ping max ms", "grow", "ping_max_ms", (5, 5))
one_each("{} wait for a tenth as many keys", "bytes RSS a waiter", "waiters", "b_rss")
one_each("{} wait for a tenth as many keys", "server CPU µs a waiter", "waiters", "cpu_us")
one_each("{} wait for a tenth as many keys", "seconds until all have left", "waiters", "leave_s")
one_each("{} wait for a tenth as many keys", "ping max ms, coming and leaving", "waiters", "ping_max_ms")
one_each("{} leases held, idle", "server CPU %", "idle", "cpu_percent", (1, 1), below=True)
one_each("{} sessions", "bytes RSS a session", "sessions", "b_rss")
one_each("{} sessions, idle", "server CPU %", "sessions", "cpu_percent")
one_each("keys of {} bytes", "server CPU µs a pair, 64 connections, 1 in flight", "keys 64x1", "cpu_sched")
one_each("keys of {} bytes", "server CPU µs a pair, 2 connections, 32 in flight", "keys 2x32", "cpu_sched")
one_each("churn for {} s", "server CPU µs a pair", "churn", "cpu_us")
one_each("churn for {} s", "growth of RSS from a tenth of the time on, %", "churn", "grows_percent")


def all_of(field):
    return [r[field] for by in seen.values() for rs in by.values() for r in rs if field in r]


print(f"\nAt most {max(all_of('steal'), default=0):.1f} % of a window was stolen by other virtual machines; the latest ping was "
      f"sent {max(all_of('ping_sent_late_ms'), default=0):.1f} ms late by the generator; {sum(all_of('errors_all'))} errors.")
