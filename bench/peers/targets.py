"""What Lockstead is to reach against its peers, as ratios of medians out of one results.jsonl."""
import json, sys
from collections import defaultdict
from statistics import median

g = defaultdict(list)
for l in open(sys.argv[1]):
    if l.startswith("{"):
        r = json.loads(l)
        g[(r.get("label", r["peer"]), r["wl"], r.get("conns"), r.get("depth"))].append(r)


def v(label, at, k):
    rs = g.get((label, *at))
    return median(r[k] for r in rs) if rs else None


SINGLE, DEEP, HANDOFF, HOLD = ("pairs", 64, 1), ("pairs", 16, 32), ("handoff", 64, 1), ("hold", None, None)
# what, workload, field, against, at most with durability none, with process
TARGETS = [
    ("server CPU a pair, 64 connections, 1 in flight", SINGLE, "cpu_sched", "null-epoll", 1.12, 1.30),
    ("the same", SINGLE, "cpu_sched", "redis", None, 1.0),
    ("server CPU a pair, 16 connections, 32 in flight", DEEP, "cpu_sched", "null-epoll", 2.0, 3.0),
    ("hand-off p50, 64 contenders", HANDOFF, "p50", "redis-baton", 1.0, 1.1),
    ("hand-off p99, 64 contenders", HANDOFF, "p99", "redis-baton", 1.0, 1.1),
    ("server CPU a grant in that hand-off", HANDOFF, "cpu_sched", "redis-baton", 0.8, 0.95),
    ("bytes RSS a held lock, 32-byte key", HOLD, "b_rss", None, 120, 130),
]

print("\n### Against the targets\n")
print("| figure | against | none | target | process | target |")
print("|---|---|---|---|---|---|")
for what, at, k, peer, *most in TARGETS:
    base = v(peer, at, k) if peer else 1
    cells = []
    for label, limit in zip(("lockstead", "lockstead-process"), most):
        x = v(label, at, k)
        ratio = x / base if x is not None and base else None
        shown = "-" if ratio is None else f"{ratio:.3f}" if peer else f"{ratio:.0f}"
        missed = ratio is not None and limit is not None and ratio > limit
        cells += [f"**{shown}**" if missed else shown, "-" if limit is None else f"≤ {limit}"]
    print(f"| {what} | {peer or '-'} | {' | '.join(cells)} |")
print("\nBold: missed.")
