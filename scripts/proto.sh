#!/usr/bin/env bash
# Generates remotestore/storev1 from remotestore/proto. What is generated is committed; run this after a change of the
# .proto. Needs Go alone: the compiler and the plugins are pinned in scripts/protogen/go.mod.
set -euo pipefail
cd "$(dirname "$0")/.."

bin=$(mktemp -d)
trap 'rm -rf "$bin"' EXIT
(
    cd scripts/protogen
    GOWORK=off GOBIN=$bin go install . google.golang.org/protobuf/cmd/protoc-gen-go \
        google.golang.org/grpc/cmd/protoc-gen-go-grpc
)
PATH=$bin:$PATH protogen remotestore/proto remotestore github.com/tidegate-go/tidegate/remotestore \
    tidegate/v1/store.proto
