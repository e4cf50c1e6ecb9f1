# Sourced by check, test and prove: one line a step with its time; the first failure ends it all,
# with the step's output. Counts of tests are added up over the steps.
set -u
cd "$(dirname "${BASH_SOURCE[0]}")/.." || exit 1
BIN="$PWD/.venv/bin"
LOGS=$(mktemp -d "${TMPDIR:-/tmp}/pgdyno-steps-XXXXXX")
trap 'rm -rf "$LOGS"' EXIT
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
  local name=$1 begun log passed status=0
  shift
  begun=$(date +%s%N)
  log="$LOGS/${name//[^a-z0-9]/-}.log"
  "$@" >"$log" 2>&1 </dev/null || status=$?
  passed=$(counted "$log" passed)
  PASSED=$((PASSED + ${passed:-0}))
  if [ "$status" -ne 0 ]; then
    cat "$log"
    printf '%-34s failed after %s s, exit code %d\n%s\n' \
      "$name" "$(seconds "$begun")" "$status" "$*"
    finish "$(counted "$log" 'failed|error')"
    exit 1
  fi
  printf '%-34s %7s s%s\n' "$name" "$(seconds "$begun")" "${passed:+   $passed passed}"
}

# finish [FAILED]: the plain closing line.
finish() {
  printf '%-34s %7s s\n' "all steps" "$(seconds "$BEGUN")"
  printf '%d passed, %d failed\n' "$PASSED" "${1:-0}"
}
