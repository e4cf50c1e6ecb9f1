# Sourced by check, test and prove: one line a step with its time; the first failure ends it all,
# with the step's output. Counts of tests are added up over the steps.
set -u
cd "$(dirname "${BASH_SOURCE[0]}")/.." || exit 1
BIN="$PWD/.venv/bin"
LOGS=$(mktemp -d "${TMPDIR:-/tmp}/pgdyno-steps-XXXXXX")
BESIDE_PIDS=() BESIDE_NAMES=()
trap 'kill ${BESIDE_PIDS[@]+"${BESIDE_PIDS[@]}"} 2>/dev/null; wait; rm -rf "$LOGS"' EXIT
PASSED=0
BEGUN=$(date +%s%N)
export CARGO_TERM_COLOR=never PYTHONDONTWRITEBYTECODE=1

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

# step NAME COMMAND...
step() {
  local name=$1 begun log status=0
  shift
  begun=$(date +%s%N)
  log=$(log_of "$name")
  "$@" >"$log" 2>&1 </dev/null || status=$?
  reported "$name" "$status" "$(seconds "$begun")" "$*"
}

# beside NAME COMMAND...: as step, but what follows begins at once; `together` waits for it.
beside() {
  local name=$1 log
  shift
  log=$(log_of "$name")
  (
    begun=$(date +%s%N) status=0
    "$@" >"$log" 2>&1 </dev/null &
    trap 'kill $! 2>/dev/null' TERM
    wait $! || status=$?
    printf '%d\t%s\t%s\n' "$status" "$(seconds "$begun")" "$*" >"$log.end"
  ) &
  BESIDE_PIDS+=($!)
  BESIDE_NAMES+=("$name")
}

# together: wait for every step that runs beside, and report them in the order they were begun.
together() {
  local place status spent command
  for place in "${!BESIDE_PIDS[@]}"; do
    wait "${BESIDE_PIDS[$place]}"
    IFS=$'\t' read -r status spent command <"$(log_of "${BESIDE_NAMES[$place]}").end"
    reported "${BESIDE_NAMES[$place]}" "$status" "$spent" "$command"
  done
  BESIDE_PIDS=() BESIDE_NAMES=()
}

# log_of NAME: where a step's output goes.
log_of() {
  echo "$LOGS/${1//[^a-z0-9]/-}.log"
}

# reported NAME STATUS SECONDS COMMAND: its line; a failure shows the output and ends it all.
reported() {
  local log passed
  log=$(log_of "$1")
  passed=$(counted "$log" passed)
  PASSED=$((PASSED + ${passed:-0}))
  if [ "$2" -ne 0 ]; then
    cat "$log"
    printf '%-34s failed after %s s, exit code %d\n%s\n' "$1" "$3" "$2" "$4"
    finish "$(counted "$log" 'failed|error')"
    exit 1
  fi
  printf '%-34s %7s s%s\n' "$1" "$3" "${passed:+   $passed passed}"
}

# finish [FAILED]: the plain closing line.
finish() {
  printf '%-34s %7s s\n' "all steps" "$(seconds "$BEGUN")"
  printf '%d passed, %d failed\n' "$PASSED" "${1:-0}"
}
