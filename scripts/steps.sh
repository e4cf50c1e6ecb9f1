# Sourced by check, test and prove. It prints one line for each step, with its time and the number
# of tests. The first failure ends everything, and shows the step's output.
set -u
cd "$(dirname "${BASH_SOURCE[0]}")/.." || exit 1
BIN="$PWD/.venv/bin"
LOGS=$(mktemp -d "${TMPDIR:-/tmp}/pgdyno-steps-XXXXXX")
BESIDE_PIDS=() BESIDE_NAMES=()
# Subtle: a child that is killed before bash resets its traps would run this function, too. Only
# this one kills children.
ended() {
  [ "$BASHPID" = "$$" ] || return 0
  kill ${BESIDE_PIDS[@]+"${BESIDE_PIDS[@]}"} 2>/dev/null
  wait
  rm -rf "$LOGS"
}
trap ended EXIT
PASSED=0
BEGUN=$(date +%s%N)
# Each of the processes of the tests would compile all of them.
unset PYTHONDONTWRITEBYTECODE
# Further threads of numpy would only wait for each other in a busy loop.
export CARGO_TERM_COLOR=never OPENBLAS_NUM_THREADS=1 OMP_NUM_THREADS=1

# seconds SINCE_NS: with one decimal.
seconds() {
  local tenths=$((($(date +%s%N) - $1) / 100000000))
  printf '%d.%d' $((tenths / 10)) $((tenths % 10))
}

# counted FILE WORD: the sum of "N WORD" over the closing lines of cargo test and pytest.
counted() {
  grep -hE '^(test result: |=+ .* in [0-9.]+s|[0-9]+ (passed|failed|skipped|error).* in )' "$1" |
    grep -oE "[0-9]+ ($2)" | awk '{ sum += $1 } END { if (NR) print sum }'
}

# tests_so_far LOG: the tests that a quiet cargo test or pytest has finished, by its dots.
tests_so_far() {
  grep -aoE '^[.sFExX]+( +(\[ *[0-9]+%\]|[0-9]+/[0-9]+))?$' "$1" 2>/dev/null |
    sed -E 's/ .*//' | tr -d '\n' | wc -c
}

# counting NAME LOG: show how many tests of a running step are done: every second on a terminal, in
# place; otherwise one line a minute. It ends with its standard input, which the script holds open.
counting() {
  local count status waited=0
  while true; do
    status=0
    read -r -t 1 || status=$?
    # More than 128: the second is over.
    [ "$status" -gt 128 ] || return 0
    waited=$((waited + 1))
    if [ -t 1 ] || [ $((waited % 60)) -eq 0 ]; then
      count=$(tests_so_far "$2")
      if [ "$count" -gt 0 ] && [ -t 1 ]; then
        printf '\r%-34s %7d s   %d tests done' "$1" "$waited" "$count"
      elif [ ! -t 1 ]; then
        printf '\n%-34s %7d s   %s' "  ... $1" "$waited" "${count/#0/no} tests done"
        : >"$2.counted"
      fi
    fi
  done
}

# step NAME COMMAND...: its name is printed when it begins.
step() {
  local name=$1 begun log status=0 is_named=
  shift
  begun=$(date +%s%N)
  log=$(log_of "$name")
  printf '%-34s ' "$name"
  exec 7> >(counting "$name" "$log")
  "$@" >"$log" 2>&1 </dev/null 7>&- || status=$?
  exec 7>&-
  wait $!
  if [ -t 1 ]; then
    printf '\r\033[K'
  elif [ -e "$log.counted" ]; then
    printf '\n'
  else
    # The line goes on behind the name.
    is_named=1
  fi
  reported "$name" "$status" "$(seconds "$begun")" "$*" "$log" "$is_named"
}

# aside NAME COMMAND...: as step, but the next step begins at once; `together` waits for it. It has
# its own process group: when it is ended, everything that it started ends, too.
aside() {
  local name=$1 log
  shift
  log=$(log_of "$name")
  (
    begun=$(date +%s%N) status=0
    setsid "$@" >"$log" 2>&1 </dev/null &
    trap 'kill -- -$! 2>/dev/null' TERM
    wait $! || status=$?
    printf '%d\t%s\t%s\n' "$status" "$(seconds "$begun")" "$*" >"$log.end"
  ) &
  BESIDE_PIDS+=($!)
  BESIDE_NAMES+=("$name")
}

# together: wait for every step begun with `aside`, and report them in that order.
together() {
  local place status spent command
  for place in "${!BESIDE_PIDS[@]}"; do
    printf '%-34s ' "${BESIDE_NAMES[$place]}"
    wait "${BESIDE_PIDS[$place]}"
    IFS=$'\t' read -r status spent command <"$(log_of "${BESIDE_NAMES[$place]}").end"
    reported "${BESIDE_NAMES[$place]}" "$status" "$spent" "$command" \
      "$(log_of "${BESIDE_NAMES[$place]}")" 1
  done
  BESIDE_PIDS=() BESIDE_NAMES=()
}

# log_of NAME: where a step's output goes.
log_of() {
  echo "$LOGS/${1//[^a-z0-9]/-}.log"
}

# reported NAME STATUS SECONDS COMMAND LOG [IS_NAMED]: its line, of which the name may stand there
# already; a failure shows the output and ends it all.
reported() {
  local log=$5 passed
  passed=$(counted "$log" passed)
  PASSED=$((PASSED + ${passed:-0}))
  if [ "$2" -ne 0 ]; then
    printf '\n'
    grep -v '^SKIPPED .*; Debian package ' "$log"
    printf '%-34s failed after %s s, exit code %d\n%s\n' "$1" "$3" "$2" "$4"
    finish "$(counted "$log" 'failed|error')"
    exit 1
  fi
  [ -n "${6:-}" ] || printf '%-34s ' "$1"
  printf '%7s s%s\n' "$3" "${passed:+   $passed passed}"
}

# skipped: one line for each missing program: how many tests need it, and how to install it.
# The marks are those of tests/fixtures/needs.py.
skipped() {
  local found
  found=$(cat "$LOGS"/*.log 2>/dev/null |
    sed -nE 's/^SKIPPED \[([0-9]+)\].*; Debian package ([a-z0-9.+-]+)$/\2 \1/p' |
    awk '{ sum[$1] += $2 } END { for (name in sum) print name, sum[name] }' | sort)
  [ -n "$found" ] || return 0
  awk '{ printf("tests skipped: %d without %s (apt-get install %s)\n", $2, $1, $1) }' <<<"$found"
}

# unsteady: the tests that failed among others and passed alone (scripts/again-alone), with what
# was wrong the first time.
unsteady() {
  local found log
  found=$(cat "$LOGS"/*.log 2>/dev/null | sed -nE 's/^UNSTEADY (.*)$/  \1/p')
  [ -n "$found" ] || return 0
  printf 'failed among others, passed alone (mend these tests):\n%s\n' "$found"
  for log in "$LOGS"/*.log; do
    grep -q '^UNSTEADY' "$log" && grep -E "^(E  |thread '.*panicked|assertion)" "$log" | head -n 12
  done
  return 0
}

# finish [FAILED]: the plain closing line.
finish() {
  printf '%-34s %7s s\n' "all steps" "$(seconds "$BEGUN")"
  printf '%d passed, %d failed\n' "$PASSED" "${1:-0}"
  unsteady
  skipped
}
