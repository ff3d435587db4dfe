#!/usr/bin/env bash
# Measures BASE, or the latest tag, and the working tree in turn, COUNT times each, and prints what benchstat makes of it.
# ONLY is a regular expression of the workloads to run, DURATION how long a run takes.
set -euo pipefail
cd "$(dirname "$0")/.."

benchstat=golang.org/x/perf/cmd/benchstat@v0.0.0-20260908200009-22c9c6c9d4da

fail() {
    echo "bench-compare: $*" >&2
    exit 1
}

base=${BASE:-$(git describe --tags --abbrev=0 2>/dev/null || true)}
[[ -n $base ]] || fail "there is no tag to compare with: pass a commit, as in make bench-compare BASE=HEAD~1"
commit=$(git rev-parse --verify --quiet "$base^{commit}") || fail "there is no commit $base"

tmp=$(mktemp -d)
cleanup() {
    git worktree remove --force "$tmp/base" 2>/dev/null || true
    rm -rf "$tmp"
}
trap cleanup EXIT

git worktree add --quiet --detach "$tmp/base" "$commit"
[[ -d $tmp/base/bench ]] || fail "$base has no bench/ to run"
(cd "$tmp/base" && go build -o "$tmp/old" ./bench) || fail "the bench of $base cannot be built"
# The flags are printed to stderr.
flags=$("$tmp/old" -h 2>&1 || true)
[[ $flags == *-benchfmt* ]] || fail "the bench of $base does not have -benchfmt yet: pass a later commit as BASE"
go build -o "$tmp/new" ./bench

name=$(git rev-parse --short "$commit")
count=${COUNT:-6}
for ((i = 1; i <= count; i++)); do
    echo "bench-compare: run $i of $count of $base ($name) and of the working tree" >&2
    for side in old new; do
        "$tmp/$side" -benchfmt -peers none -runs 1 -d "${DURATION:-1s}" -only "${ONLY:-}" >>"$tmp/$side.txt"
    done
done

go run "$benchstat" "base=$tmp/old.txt" "worktree=$tmp/new.txt"
