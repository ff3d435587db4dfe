#!/usr/bin/env bash
# Checks the whole workspace: go vet, gofmt, go mod tidy and golangci-lint, whose version is pinned here.
# All are run; the exit status is 1 when any complained.
set -euo pipefail
cd "$(dirname "$0")/.."

version=2.15.0
linter=$PWD/.bin/golangci-lint

if [[ $("$linter" version --short 2>/dev/null || true) != "$version" ]]; then
    echo "lint: building golangci-lint $version into .bin, which takes a few minutes" >&2
    GOBIN=$PWD/.bin go install \
        "github.com/golangci/golangci-lint/v2/cmd/golangci-lint@v$version"
fi

failed=0
run() {
    echo "lint: $*"
    "$@" || failed=1
}

formatted() {
    local files
    files=$(git ls-files -z --cached --others --exclude-standard -- '*.go' |
        while IFS= read -r -d '' f; do [[ ! -f $f ]] || printf '%s\0' "$f"; done |
        xargs -0 -r gofmt -l)
    [[ -z $files ]] || {
        printf 'not formatted by gofmt:\n%s\n' "$files"
        return 1
    }
}

run formatted
run go vet work
run "$linter" config verify

modules=$(go list -m -f '{{.Dir}}')
while IFS= read -r dir; do
    pushd "$dir" >/dev/null
    echo "lint: module ${dir/#$OLDPWD/.}"
    run go mod tidy -diff
    if [[ -n $(go list ./... 2>/dev/null) ]]; then
        run "$linter" run ./...
    fi
    popd >/dev/null
done <<<"$modules"

exit $failed
