# Sourced by check and test, after steps.sh: format, lints, types and house rules. The slow ones run
# side by side, also with the steps that follow, until `together`. Clippy shares the macros that
# `make build` has compiled, and the folder of no other step, so neither waits for the other.
lint() {
  step "rust format" cargo fmt --all --check
  step "python format" "$BIN/ruff" format --check python tests bench
  step "python lints" "$BIN/ruff" check python tests bench
  aside "rust lints" \
    cargo clippy --quiet --release --workspace --all-targets --locked -- -D warnings
  aside "python types" "$BIN/mypy" -p pgdyno
  aside "tidy" "$BIN/pytest" -q -p no:cacheprovider tests/test_tidy.py
}
