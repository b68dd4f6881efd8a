# Each recipe is a plain cargo line; `check` is exactly what CI runs.

# Format, lints, tests and docs.
check: format lint test docs

# Formatting, without changing anything.
format:
    cargo fmt --all --check

# Lints of every target; warnings are errors.
lint:
    cargo clippy --workspace --all-targets -- -D warnings

# All tests. PLIMSOLL_DATA names the folder of public measurements; without it, tests on them are skipped.
test:
    cargo test --workspace

# Documentation, without broken links.
docs:
    RUSTDOCFLAGS="-D warnings" cargo doc --workspace --no-deps

# The first run: generated workloads to report, leaderboard and ONNX.
quickstart:
    cargo run --release -- run configs/quickstart.toml

# The published measurements, cross-validated.
gpumemnet:
    cargo run --release -- run configs/gpumemnet-mlp.toml
    cargo run --release -- run configs/gpumemnet-cnn.toml
    cargo run --release -- run configs/gpumemnet-transformer.toml

# The Python package's tests, in an environment with torch.
python:
    cd python && python -m pytest -q
