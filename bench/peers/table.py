"""Medians (min-max) of the runs in a results.jsonl."""
import json, sys
from collections import defaultdict
from statistics import median

rows = [json.loads(l) for l in open(sys.argv[1]) if l.startswith("{")]
g = defaultdict(list)
for r in rows:
    if r["wl"] not in ("hold", "fsync"):
        g[(r["wl"], r["depth"] > 1, r["label"], r["conns"])].append(r)


def f(x):
    return f"{x:,.0f}" if x >= 100 else f"{x:.1f}" if x >= 10 else f"{x:.2f}"


def m(rs, k, scale=1.0):
    v = [r[k] * scale for r in rs]
    return f"{f(median(v))} ({f(min(v))}-{f(max(v))})"


def med(rs, k):
    return f(median(r[k] for r in rs))


def table(title, wl, deep, handoff=False):
    print(f"\n### {title}\n")
    if handoff:
        print("| peer | clients | grants/s | hand-off p50 us | hand-off p99 us | wait p50 us | wait p99 us | server CPU us/grant | server cores | client cores | releaser got it again | violations, errors |")
        print("|---|---|---|---|---|---|---|---|---|---|---|---|")
    else:
        print("| peer | conns | pairs/s | acquire p50 us | p99 us | p999 us | server CPU us/pair | of it user | server cores | client cores | errors, denied |")
        print("|---|---|---|---|---|---|---|---|---|---|---|")
    for (w, d, label, conns), rs in g.items():
        if w != wl or d != deep:
            continue
        if handoff:
            again = 100 * sum(r["denied"] for r in rs) / max(1, sum(r["n"] for r in rs))
            bad = f"{sum(r['violations'] for r in rs)}, {sum(r['errors_all'] for r in rs)}"
            print(f"| {label} | {conns} | {m(rs,'rate')} | {m(rs,'p50')} | {m(rs,'p99')} | {med(rs,'wait_p50')} | {med(rs,'wait_p99')} | {m(rs,'cpu_sched')} | {med(rs,'srv_util')} | {med(rs,'cli_util')} | {again:.0f}% | {bad} |")
        else:
            uf = median(r["cpu_user"] / r["cpu_stat"] * 100 if r["cpu_stat"] else 0 for r in rs)
            bad = f"{sum(r['errors_all'] for r in rs)}, {sum(r['denied'] for r in rs)}"
            print(f"| {label} | {conns} | {m(rs,'rate')} | {m(rs,'p50')} | {m(rs,'p99')} | {med(rs,'p999')} | {m(rs,'cpu_sched')} | {uf:.0f}% | {med(rs,'srv_util')} | {med(rs,'cli_util')} | {bad} |")


table("W1: uncontended acquire+release pairs, one outstanding request a connection", "pairs", False)
table("W2: the same, 32 outstanding a connection", "pairs", True)
table("W3: hand-off on one key, 64 clients, 0 ms hold, at least 31 true waiters at each release", "handoff", False, True)
table("W3b: hand-off to the one waiter (2 clients, hold 2-12 ms at random)", "handoff1", False, True)
table("W3c: 64 clients, 0 ms hold, no rule: the releaser asks again at once (hand-off: changes of owner only)", "free", False, True)
table("Check: 16 clients, hold 0-2 ms, no rule", "verify", False, True)
print("\n### W4: memory for each held lock, 32-byte keys\n")
print("| peer | locks held | bytes/lock RSS | anon | file-backed | shmem | PSS of all processes | acquires/s while filling |\n|---|---|---|---|---|---|---|---|")
holds = defaultdict(list)
for r in rows:
    if r["wl"] == "hold":
        r["fill"] = r["n"] / max(r["secs"], 0.005)
        holds[r["peer"]].append(r)
for p, rs in holds.items():
    print(f"| {p} | {rs[0]['n']:,} | {m(rs,'b_rss')} | {m(rs,'b_anon')} | {m(rs,'b_file')} | {m(rs,'b_shmem')} | {m(rs,'b_pss')} | {m(rs,'fill')} |")
disk = [r["p50"] for r in rows if r["wl"] == "fsync"]
if disk:
    print(f"\nDisk: write + fdatasync of 4 KiB takes {f(median(disk))} us ({f(min(disk))}-{f(max(disk))}), median of each round's p50")
n = sum(len(v) for v in g.values())
st = [r["steal"] for v in g.values() for r in v]
print(f"\n{n} measurements; steal median {median(st):.2f}% max {max(st):.2f}%; cpu_stat against cpu_sched, median ratio {median(r['cpu_stat']/r['cpu_sched'] for v in g.values() for r in v if r['cpu_sched']):.3f}")
