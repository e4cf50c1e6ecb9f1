# Sourced by check and test, after steps.sh: format, lints, types and house rules. The slow ones run
# side by side, also with the steps that follow, until `together`.

# Before `cargo`: it lints the Rust code of this project while it compiles it. `cargo clippy`
# would check every dependency once more: 139 s of CPU time, and compiling takes 193 s.
LINTED=(env RUSTC_WORKSPACE_WRAPPER=clippy-driver CLIPPY_ARGS=-Dwarnings)

lint() {
  step "rust format" cargo fmt --all --check
  step "python format" "$BIN/ruff" format --check python tests bench
  step "python lints" "$BIN/ruff" check python tests bench
  aside "rust lints, compile" "${LINTED[@]}" \
    cargo build --quiet --workspace --all-targets --locked
  aside "python types" "$BIN/mypy" -p pgdyno
  aside "tidy" "$BIN/pytest" -q -p no:cacheprovider tests/test_tidy.py
}
