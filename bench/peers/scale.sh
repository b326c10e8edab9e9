#!/bin/bash
# Lockstead at scale, in the modes none and process, on loopback only; see README.md.
#   ./scale.sh measure          one JSON line a figure into $RES
#   ./scale.sh table            medians out of $RES, against the targets
#   ./scale.sh                  both
#   ./scale.sh restart MODE PID kills that server, starts it as after another boot, prints its pid
# LOCKSTEAD names the binary; ./run.sh build makes the load generator. ONLY="held idle" limits the figures, MODES the
# modes; SECS, WARM and HELD set the windows of pairs, CHURN the seconds of churn; DIVIDE=100 makes all numbers small, to try
# it out. Ends only what it started, by pid.
set -u
cd "$(dirname "$0")"
BIN=${CARGO_TARGET_DIR:-/tmp/peers-target}/release/peers
W=${WORKDIR:-/tmp/peers-bench}
RES=${RES:-$W/scale.jsonl}
LOCKSTEAD=${LOCKSTEAD:-}
ONLY=${ONLY:-"handoff-waiters held keys grow waiters end-second end-instant idle sessions churn"}
MODES=${MODES:-"none process"}
CHURN=${CHURN:-45}
DIVIDE=${DIVIDE:-1}
export SECS=${SECS:-4} WARM=${WARM:-1}
HELD=${HELD:-20} # seconds of pairs beside held keys: a checkpoint of 10 million is due after 4 s of them and takes 16 s
PORT=7626
LEASE=12      # of the leases that end at one instant: as long as fill, restart and set-up take, and some more
SESSIONS=10000
FILES=$((2 * SESSIONS)) # a server has at most half as many sessions as files
PIDFILE=$W/scale.pid
PIN=

fail() { echo "scale: $*" >&2; exit 1; }

listens() { (exec 3<>"/dev/tcp/127.0.0.1/$PORT") 2>/dev/null; }

ended() { # PID: a zombie has
  case $(sed 's/.*) //' "/proc/$1/stat" 2>/dev/null) in ''|Z*) return 0 ;; *) return 1 ;; esac
}

wait_gone() { # PID: its first thread can be a zombie before the others let go of the port
  for _ in $(seq 200); do ended "$1" && ! listens && return 0; sleep 0.05; done
  return 1
}

serve() { # MODE [OPTION…]: with the data that is there
  local mode=$1 d=$W/data/scale-$1; shift
  local boot=()
  [ "$mode" = none ] || boot=(--data-dir "$d/data" --boot-id-file "$d/boot")
  $PIN "$LOCKSTEAD" serve --listen 127.0.0.1:$PORT --admin off --durability "$mode" "${boot[@]}" \
    --max-keys 12000000 --max-sessions $SESSIONS "$@" >>"$d/log" 2>&1 </dev/null &
  local pid=$!
  disown $pid # nobody wants to be told that it was killed
  echo $pid >"$PIDFILE"
  for _ in $(seq 600); do
    listens && return 0
    ended $pid && break
    sleep 0.05
  done
  tail -5 "$d/log" >&2
  return 1
}

boot() { # MODE ID
  echo "$2" >"$W/data/scale-$1/boot"
}

start() { # MODE [OPTION…]: afresh
  listens && fail "something listens on $PORT already"
  rm -rf "$W/data/scale-$1"; mkdir -p "$W/data/scale-$1"
  boot "$1" 00000000-0000-0000-0000-000000000001
  serve "$@" || fail "the server does not start"
}

restart() { # MODE PID
  kill -KILL "$2" && wait_gone "$2" || fail "cannot kill $2"
  boot "$1" 00000000-0000-0000-0000-000000000002
  serve "$1" --max-lease ${LEASE}s || fail "the server does not start again"
  cat "$PIDFILE"
}

stop() { # what serve started last
  local pid
  pid=$(cat "$PIDFILE" 2>/dev/null) || return 0
  rm -f "$PIDFILE"
  kill -KILL "$pid" 2>/dev/null # nothing is worth a drain here
  wait_gone "$pid" || fail "$pid does not end"
}

one() { # MODE WHAT N [MORE…]
  local mode=$1 label=lockstead out; shift
  [ "$mode" = none ] || label=lockstead-$mode
  out=$(timeout $((CHURN + 300)) $PIN "$BIN" scale "$@" $PORT "$(cat "$PIDFILE")") || { echo "FAILED $mode $*" >&2; FAILED=1; }
  [ -z "$out" ] || sed "s/^{/{\"label\":\"$label\",/" <<<"$out" | tee -a "$RES"
}

few() { # N: fewer, if it is only tried out; even
  local n=$(($1 / DIVIDE / 2 * 2))
  echo $((n < 2 ? 2 : n))
}

figures() { # MODE WHAT
  local n
  case $2 in
    handoff-waiters)
       # they take turns: on one processor or on two is twice the figure, and the scheduler's whim
       PIN="taskset -c $(($(nproc) - 1))"
       start $1; for n in 2 64 1000 5000 20000; do one $1 $2 $(few $n); done; stop
       PIN= ;;
    held) for n in 1000 100000 1000000 10000000; do start $1; SECS=$HELD one $1 $2 $(few $n); stop; done ;;
    keys) start $1; one $1 $2 1; one $1 $2 1024; stop ;;
    grow) start $1; one $1 $2 $(few 10000000); stop ;;
    waiters|end-second|idle) start $1; one $1 $2 $(few 1000000); stop ;;
    end-instant) start $1 --max-lease ${LEASE}s
       if [ $1 = none ]; then one $1 $2 $(few 1000000) $LEASE
       else one $1 $2 $(few 1000000) $LEASE "exec '$PWD/scale.sh' restart $1 $(cat "$PIDFILE")"; fi
       stop ;;
    sessions) start $1; one $1 $2 $(few $SESSIONS); stop ;;
    churn) start $1; one $1 $2 $CHURN; stop ;;
    *) fail "no figure $2" ;;
  esac
}

measure() {
  FAILED=0
  [ -x "$BIN" ] || fail "no load generator at $BIN; ./run.sh build makes it"
  [ -x "$LOCKSTEAD" ] || fail "LOCKSTEAD must name the server's binary"
  [ "$(ulimit -n)" = unlimited ] || [ "$(ulimit -n)" -ge $FILES ] || ulimit -n $FILES 2>/dev/null ||
    fail "$SESSIONS sessions want $FILES open files, and the hard limit is $(ulimit -Hn): raise it"
  mkdir -p "$W"
  trap stop EXIT
  for mode in $MODES; do
    for what in $ONLY; do figures $mode $what; done
  done
  return $FAILED
}

case ${1:-all} in
  measure) measure ;;
  table) python3 scale.py "$RES" ;;
  restart) restart "${2:?restart wants a mode}" "${3:?restart wants a pid}" ;;
  all) measure; python3 scale.py "$RES" ;;
  *) sed -n '2,9p' "$0" >&2; exit 2 ;;
esac
