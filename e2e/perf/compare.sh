#!/bin/bash
# Compares Warren with another broker on the same machine, in the same minutes: `amqpctl bench` on Warren, on the other one, on Warren again, so that
# a machine that gets slower or faster meanwhile shows in the table. Prints a table in Markdown. A run whose counts do not agree ends the script.
#
#   compare.sh OTHER_AMQP_URL [BENCH_FLAG...]     e.g. compare.sh amqp://guest:guest@127.0.0.1:5700/ --size 100
#
# Warren is started on a new data directory (WARREN_BIN, else bin/warren) unless WARREN_URL names one that runs; amqpctl is AMQPCTL_BIN, else
# bin/amqpctl. ROUNDS repeats the three runs (default 1).
set -euo pipefail

if [ $# -lt 1 ]; then
  sed -n '2,9s/^# \{0,1\}//p' "$0" >&2
  exit 64
fi
other_url=$1
shift
here=$(cd "$(dirname "$0")" && pwd)
warren=${WARREN_BIN:-$here/../../bin/warren}
amqpctl=${AMQPCTL_BIN:-$here/../../bin/amqpctl}
rounds=${ROUNDS:-1}
flags=(--queue-type quorum --size 1024 --confirm 1000 --prefetch 1000 --multi-ack-every 200 --time 10 --warmup 3 "$@")

work=$(mktemp -d)
server=
finish() {
  if [ -n "$server" ] && kill "$server" 2>/dev/null; then
    wait "$server" 2>/dev/null || true
  fi
  rm -rf "$work"
}
trap finish EXIT

if [ -z "${WARREN_URL:-}" ]; then
  port=$((21000 + RANDOM % 10000))
  WARREN_URL=amqp://guest:guest@127.0.0.1:$port/
  "$warren" server --data-dir "$work/data" --amqp 127.0.0.1:$port --http 127.0.0.1:$((port + 1)) --metrics 127.0.0.1:$((port + 2)) \
    --cluster 127.0.0.1:$((port + 3)) --name rabbit@compare >"$work/log" 2>&1 &
  server=$!
  for _ in $(seq 200); do
    if (exec 3<>"/dev/tcp/127.0.0.1/$port") 2>/dev/null; then break; fi
    if ! kill -0 "$server" 2>/dev/null; then cat "$work/log" >&2; exit 1; fi
    sleep 0.1
  done
fi

# number FILE KEY [BLOCK]: a number of the report, of its top or of one of its blocks.
number() {
  awk -v key="\"$2\":" -v block="${3:-}" '
    $2 == "{" { inside = $1 }
    /^  }/ { inside = "" }
    $1 == key && inside == (block == "" ? "" : "\"" block "\":") { sub(/,$/, "", $2); print $2; exit }' "$1"
}

runs=()
run() { # NAME URL
  local file="$work/run-${#runs[@]}.json"
  echo "running ${#runs[@]}: $1" >&2
  if ! "$amqpctl" --quiet --output json --amqp-url "$2" bench "${flags[@]}" >"$file" 2>"$work/err"; then
    cat "$work/err" >&2
    exit 1
  fi
  runs+=("$1 $file")
}

for _ in $(seq "$rounds"); do
  run Warren "$WARREN_URL"
  run Other "$other_url"
  run Warren "$WARREN_URL"
done

echo "\`amqpctl bench ${flags[*]}\`, $(nproc) CPUs, $(uname -sr), load average before the end $(cut -d' ' -f1 /proc/loadavg 2>/dev/null || echo unknown)"
echo
echo "| run | broker | confirmed/s | consumed/s | confirm p50 ms | confirm p99 ms | delivery p50 ms | delivery p99 ms | CPUs of amqpctl | missing | doubled |"
echo "|---|---|---|---|---|---|---|---|---|---|---|"
for i in "${!runs[@]}"; do
  file=${runs[$i]#* }
  broker=$(sed -n 's/^  "broker": "\(.*\)",$/\1/p' "$file")
  [ "${runs[$i]%% *}" = Warren ] && broker=Warren # it calls itself RabbitMQ, as some clients want
  printf '| %d | %s | %.0f | %.0f | %.2f | %.2f | %.2f | %.2f | %.2f | %d | %d |\n' $((i + 1)) "$broker" \
    "$(number "$file" confirm_rate)" "$(number "$file" consume_rate)" \
    "$(number "$file" p50 confirm_latency_ms)" "$(number "$file" p99 confirm_latency_ms)" "$(number "$file" p50 latency_ms)" "$(number "$file" p99 latency_ms)" \
    "$(number "$file" generator_cpus)" "$(number "$file" missing check)" "$(number "$file" duplicates check)"
done
echo
for measure in confirm_rate consume_rate; do
  for i in "${!runs[@]}"; do
    echo "${runs[$i]%% *} $(number "${runs[$i]#* }" "$measure")"
  done | awk -v measure="$measure" '
    { sum[$1] += $2; n[$1]++ }
    END {
      name = measure == "confirm_rate" ? "confirmed" : "consumed"
      w = sum["Warren"] / n["Warren"]; o = sum["Other"] / n["Other"]
      printf "Messages %s per second, mean of the runs: %.0f against %.0f, ratio %.2f\n", name, w, o, (o > 0 ? w / o : 0)
    }'
done
