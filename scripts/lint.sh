# Sourced by check and test, after steps.sh: format, lints, types and house rules.
lint() {
  step "rust format" cargo fmt --all --check
  step "rust lints" cargo clippy --quiet --workspace --all-targets --locked -- -D warnings
  step "python format" "$BIN/ruff" format --check python tests bench
  step "python lints" "$BIN/ruff" check python tests bench
  step "python types" "$BIN/mypy" -p pgdyno
  step "tidy" "$BIN/pytest" -q tests/test_tidy.py
}
