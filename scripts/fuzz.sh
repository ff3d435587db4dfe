#!/usr/bin/env bash
# Runs each fuzz target of every module of the workspace for a while: FUZZTIME, 30s unless set.
# Stops at the first finding; go test leaves the input in testdata/fuzz of the package.
set -euo pipefail
cd "$(dirname "$0")/.."

count=0
for package in $(go list work); do
    # Only a package whose tests say so is worth compiling.
    dir=$(go list -f '{{.Dir}}' "$package")
    grep -qs '^func Fuzz' "$dir"/*_test.go || continue
    for target in $(go test -list '^Fuzz' "$package" | grep '^Fuzz'); do
        echo "fuzz: $target of $package"
        go test -run '^$' -fuzz "^$target\$" -fuzztime "${FUZZTIME:-30s}" "$package"
        count=$((count + 1))
    done
done
echo "fuzz: $count targets without a finding"
