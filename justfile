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

# The estimator in checkpoints/default, as it ships: fitted, then adapted to SchedTune's GPUs on their older stack, and to
# milabench's runs on an AMD GPU.
shipped:
    cargo run --release -- run configs/default.toml
    cargo run --release -- adapt runs/default/checkpoint --data "$PLIMSOLL_DATA/schedtune_5gpu_cnn.csv" --out runs/default/adapted
    cargo run --release -- adapt runs/default/adapted --data "$PLIMSOLL_DATA/milabench_scaling.csv" --gpu mi325x --out checkpoints/default

# Every config whose data is there, then all of them on one page: evaluation/leaderboard.csv, .md and .html.
leaderboard:
    #!/usr/bin/env bash
    set -euo pipefail
    cargo build --release --bin plimsoll
    runs=()
    for config in configs/*.toml; do
        name=$(basename "$config" .toml)
        if grep -q PLIMSOLL_DATA "$config" && [ -z "${PLIMSOLL_DATA:-}" ]; then
            echo "skipped $name: PLIMSOLL_DATA is not set" >&2
            continue
        fi
        # A data file that is not there stops no other run: milabench and GPUMemNet are fetched apart.
        missing=$({ grep -oE '"\$\{PLIMSOLL_DATA\}/[^"]+"' "$config" || true; } | tr -d '"' | sed "s|\${PLIMSOLL_DATA}|${PLIMSOLL_DATA:-}|" |
            while read -r file; do [ -e "$file" ] || echo "$file"; done)
        if [ -n "$missing" ]; then
            echo "skipped $name: without $missing" >&2
            continue
        fi
        target/release/plimsoll run "$config"
        runs+=("runs/$name")
    done
    target/release/plimsoll leaderboard "${runs[@]}" --fresh --into evaluation/leaderboard.csv --page evaluation/leaderboard.html

# The Python package's tests, in an environment with torch.
python:
    cd python && python -m pytest -q
