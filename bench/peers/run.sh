#!/bin/bash
# The same lock workloads against several lock servers, on loopback only; see README.md.
#   ./run.sh install            Debian packages of the peers and what the client builds with
#   ./run.sh build              the load generator, into $CARGO_TARGET_DIR (default /tmp/peers-target)
#   ./run.sh machine            what is measured on, and which versions
#   ./run.sh measure [ROUNDS]   W1, W2, W3 and the disk; one JSON line a measurement into $RES
#   ./run.sh memory             W4
#   ./run.sh table              medians (min-max) out of $RES, and ratios against the targets
#   ./run.sh plot DIR           bars out of $RES, as SVG files in DIR
#   ./run.sh                    all of these
# PEERS="redis pg" limits the peers, TARGETS=1 the figures to those of the targets; SECS, WARM set the windows. Lockstead
# and dflockd are measured only where the variables LOCKSTEAD and DFLOCKD name their binaries. Ends only what it started,
# by pid.
set -u
CALLER=$PWD
cd "$(dirname "$0")"
export CARGO_TARGET_DIR=${CARGO_TARGET_DIR:-/tmp/peers-target}
BIN=$CARGO_TARGET_DIR/release/peers
W=${WORKDIR:-/tmp/peers-bench}
RES=${RES:-$W/results.jsonl}
SECS=${SECS:-4}; WARM=${WARM:-1}
DFLOCKD=${DFLOCKD:-$W/dflockd}
LOCKSTEAD=${LOCKSTEAD:-}
PEERS=${PEERS:-"null-epoll lockstead lockstead-process lockstead-machine redis redis-aof dflockd pg etcd etcd-tmpfs zk"}
PGBIN=$(ls -d /usr/lib/postgresql/*/bin 2>/dev/null | tail -1)
mkdir -p "$W"
PID= ; PORT= ; KILLSIG=TERM

install() {
  export DEBIAN_FRONTEND=noninteractive
  apt-get update -qq
  apt-get install -y -qq --no-install-recommends redis-server etcd-server postgresql zookeeper \
    protobuf-compiler libprotobuf-dev >/dev/null
}

build() { cargo build --release --locked; }

wait_port() { # PORT
  for _ in $(seq 150); do
    (exec 3<>"/dev/tcp/127.0.0.1/$1") 2>/dev/null && return 0
    sleep 0.1
  done
  echo "nothing listens on $1" >&2; return 1
}

start() { # PEER: sets PID, PORT
  local d=$W/data/$1; rm -rf "$d"; mkdir -p "$d"; KILLSIG=TERM
  case $1 in
    null-epoll)  PORT=7001; "$BIN" serve epoll  $PORT & PID=$! ;;
    null-tokio1) PORT=7002; "$BIN" serve tokio1 $PORT & PID=$! ;;
    null-tokio2) PORT=7003; "$BIN" serve tokio2 $PORT & PID=$! ;;
    null-uring)  PORT=7004; "$BIN" serve uring  $PORT & PID=$! ;;
    redis) PORT=7379; redis-server --bind 127.0.0.1 --port $PORT --save '' --appendonly no \
             --daemonize no --dir "$d" --maxclients 2000 >"$d/log" 2>&1 & PID=$! ;;
    redis-aof) PORT=7380; redis-server --bind 127.0.0.1 --port $PORT --save '' --appendonly yes --appendfsync always \
             --daemonize no --dir "$d" --maxclients 2000 >"$d/log" 2>&1 & PID=$! ;;
    lockstead|lockstead-process|lockstead-machine)
           [ -x "$LOCKSTEAD" ] || { echo "$1 is not measured: LOCKSTEAD does not name its binary" >&2; return 1; }
           PORT=7625; local mode=${1#lockstead}; mode=${mode#-}
           "$LOCKSTEAD" serve --listen 127.0.0.1:$PORT --admin off --durability "${mode:-none}" --data-dir "$d/data" \
             --max-keys 4000000 --max-waiters-per-key 100000 >"$d/log" 2>&1 & PID=$! ;;
    dflockd) [ -x "$DFLOCKD" ] || { echo "$1 is not measured: DFLOCKD does not name its binary" >&2; return 1; }
           PORT=7388; "$DFLOCKD" --host 127.0.0.1 --port $PORT --max-locks 4000000 --read-timeout 600 >"$d/log" 2>&1 & PID=$! ;;
    etcd|etcd-tmpfs) PORT=7479
           [ $1 = etcd-tmpfs ] && { d=/dev/shm/peers-etcd; rm -rf $d; mkdir -p $d; }
           etcd --data-dir "$d/data" --log-level error --quota-backend-bytes 8589934592 \
             --listen-client-urls http://127.0.0.1:$PORT --advertise-client-urls http://127.0.0.1:$PORT \
             --listen-peer-urls http://127.0.0.1:7480 --initial-advertise-peer-urls http://127.0.0.1:7480 \
             --initial-cluster default=http://127.0.0.1:7480 >"$d/log" 2>&1 & PID=$! ;;
    pg) PORT=7432; KILLSIG=INT; chown postgres "$d"
        runuser -u postgres -- "$PGBIN/initdb" -A trust -U postgres -D "$d/data" >"$d/initdb.log" 2>&1 || return 1
        cat >>"$d/data/postgresql.conf" <<C
listen_addresses='127.0.0.1'
port=$PORT
unix_socket_directories='$d'
max_connections=300
max_locks_per_transaction=${PG_MLPT:-1024}
C
        runuser -u postgres -- "$PGBIN/postgres" -D "$d/data" >"$d/log" 2>&1 &
        wait_port $PORT || return 1
        PID=$(head -1 "$d/data/postmaster.pid") ;;
    zk) PORT=7181
        cat >"$d/zoo.cfg" <<C
tickTime=2000
dataDir=$d/data
clientPort=$PORT
clientPortAddress=127.0.0.1
maxClientCnxns=0
admin.enableServer=false
C
        java -Xmx1000m -Dzookeeper.root.logger=WARN,CONSOLE -Dlog4j.configuration=file:/etc/zookeeper/conf/log4j.properties \
          -cp /etc/zookeeper/conf:/usr/share/java/zookeeper.jar \
          org.apache.zookeeper.server.quorum.QuorumPeerMain "$d/zoo.cfg" >"$d/log" 2>&1 & PID=$! ;;
    *) echo "no peer $1" >&2; return 1 ;;
  esac
  wait_port $PORT && sleep 1
}

stop() { # what start started
  [ -n "$PID" ] || return 0
  kill -$KILLSIG "$PID" 2>/dev/null
  for _ in $(seq 50); do kill -0 "$PID" 2>/dev/null || break; sleep 0.1; done
  kill -0 "$PID" 2>/dev/null && kill -KILL "$PID"
  wait "$PID" 2>/dev/null
  PID=; rm -rf /dev/shm/peers-etcd
}
trap stop EXIT

one() { # LABEL CLIENT-PEER WORKLOAD CONNS DEPTH
  local out
  out=$(timeout 60 "$BIN" run "$2" "$3" "$4" "$5" "$WARM" "$SECS" "$PORT" "$PID" 2>>"$W/client.err") || { echo "FAILED $*" | tee -a "$W/client.err" >&2; return; }
  echo "{\"label\":\"$1\",\"round\":$ROUND,${out#\{}" | tee -a "$RES"
}

contend() { # LABEL CLIENT-PEER
  # etcd 3.4's v3lock stopped granting to waiters once a client with 63 waiting calls had gone: a fresh server each
  [ $2 = etcd-v3lock ] && { stop; start etcd; }
  one $1 $2 handoff 64 1
  [ $2 = etcd-v3lock ] && { stop; start etcd; }
  one $1 $2 handoff1 2 1
  [ $ROUND = 1 ] && SECS=2 one $1 $2 verify 16 1
}

measure_targets() { # PEER: what the targets are about and nothing else, so that the peers take turns quickly
  case $1 in
    null-*)     one $1 null pairs 64 1; one $1 null pairs 16 32 ;;
    redis)      one redis redis pairs 64 1; one redis-baton redis-baton handoff 64 1 ;;
    lockstead*) one $1 lockstead pairs 64 1; one $1 lockstead pairs 16 32; one $1 lockstead handoff 64 1 ;;
  esac
}

measure_peer() {
  local c
  [ -z "${TARGETS:-}" ] || { measure_targets $1; return; }
  case $1 in
    null-*) for c in 1 16 64 256; do one $1 null pairs $c 1; done
            for c in 1 16 64; do one $1 null pairs $c 32; done ;;
    redis)  for c in 1 16 64 256; do one redis redis pairs $c 1; done
            for c in 1 16 64; do one redis redis pairs $c 32; done
            for p in redis-poll10ms:redis redis-baton:redis-baton; do contend ${p%:*} ${p#*:}; done
            one redis-poll10ms redis free 64 1 ;;
    redis-aof) for c in 1 16 64 256; do one redis-aof redis pairs $c 1; done ;;
    lockstead*)
            for c in 1 16 64 256; do one $1 lockstead pairs $c 1; done
            for c in 1 16 64; do one $1 lockstead pairs $c 32; done
            contend $1 lockstead
            one $1 lockstead free 64 1 ;;
    dflockd|pg|zk)
            for c in 1 16 64 256; do one $1 $1 pairs $c 1; done
            for c in 1 16 64; do one $1 $1 pairs $c 32; done
            contend $1 $1
            one $1 $1 free 64 1 ;;
    etcd)   for c in 1 16 64 256; do one etcd etcd pairs $c 1; one etcd-v3lock etcd-v3lock pairs $c 1; done
            for c in 1 16 64; do one etcd etcd pairs $c 32; done
            contend etcd-watch etcd; contend etcd-v3lock etcd-v3lock ;;
    etcd-tmpfs)
            for c in 1 64; do one etcd-tmpfs etcd pairs $c 1; done
            one etcd-watch-tmpfs etcd handoff 64 1; one etcd-v3lock-tmpfs etcd-v3lock handoff 64 1 ;;
  esac
}

disk() {
  local out
  mkdir -p "$W/data"
  out=$("$BIN" fsync "$W/data") && echo "{\"label\":\"disk\",\"round\":$ROUND,${out#\{}" | tee -a "$RES"
}

measure() {
  for ROUND in $(seq "${1:-3}"); do
    disk
    for p in $PEERS; do
      start $p && measure_peer $p
      stop
    done
  done
}

memory() {
  local n p hook out
  for p in $PEERS; do
    hook=
    case $p in redis|dflockd|lockstead*) n=1000000 ;; pg|etcd|zk) n=100000 ;; *) continue ;; esac
    start $p || { stop; continue; }
    [ $p = zk ] && hook="jcmd $PID GC.run >/dev/null; jcmd $PID GC.class_histogram | tail -1"
    [ $p = pg ] && hook="psql -h 127.0.0.1 -p $PORT -U postgres -Atc \"select count(*) from pg_locks where locktype='advisory'\" -c \"select name, allocated_size from pg_shmem_allocations where name ilike '%lock hash%'\""
    # for a JVM, the live heap before as well
    [ -n "$hook" ] && { echo "$p, before:"; sh -c "$hook"; }
    out=$(HOLD_HOOK=$hook timeout 300 "$BIN" hold ${p%%-*} $n $PORT $PID) && echo "{\"label\":\"$p\",${out#\{}" | tee -a "$RES"
    stop
  done
}

machine() {
  lscpu | grep -E '^(Model name|CPU\(s\)|Thread|Hypervisor)'
  echo "kernel $(uname -sr), $(. /etc/os-release && echo "$PRETTY_NAME")"
  echo "memory $(free -g | awk '/^Mem/ {print $2}') GiB; $(df -T "$W" | awk 'END {print "file system of the data: " $2}')"
  [ -x "$LOCKSTEAD" ] && "$LOCKSTEAD" --version
  redis-server --version | cut -d' ' -f1-3
  "$PGBIN/postgres" --version
  etcd --version | head -1
  dpkg-query -W -f '${Package} ${Version}\n' zookeeper
  [ -x "$DFLOCKD" ] && echo "dflockd $("$DFLOCKD" --version 2>&1 | head -1)"
  rustc --version
}

table() { python3 short.py "$RES"; python3 targets.py "$RES"; python3 table.py "$RES"; }

case ${1:-all} in
  install) install ;;
  build) build ;;
  measure) measure "${2:-3}" ;;
  memory) memory ;;
  table) table ;;
  plot) here=$PWD; cd "$CALLER" && python3 "$here/plot.py" "$RES" "${2:?plot wants a directory}" ;;
  machine) machine ;;
  all) install && build && machine && measure 3 && memory && table ;;
  *) sed -n '2,13p' "$0" >&2; exit 2 ;;
esac
