package main

import (
	"bytes"
	"strings"
	"testing"
)

func TestRun(t *testing.T) {
	written := func(args ...string) string {
		t.Helper()
		var stdout, stderr bytes.Buffer
		if code := run(args, &stdout, &stderr); code != 0 || stderr.Len() > 0 {
			t.Fatalf("exit code %d: %s", code, stderr.String())
		}
		return stdout.String()
	}
	log := written("--lines", "100", "--seed", "7", "--format", "json")
	if strings.Count(log, "\n") != 100 || !strings.HasPrefix(log, `{"ts":17723592`) {
		t.Errorf("%s", log)
	}
	if written("--lines", "100", "--seed", "7", "--format", "json") != log || written("--lines", "100", "--seed", "8", "--format", "json") == log {
		t.Error("the log should follow from the seed")
	}
	if log := written("--lines", "1"); !strings.Contains(log, "[01/Mar/2026:10:00:00 +0000]") {
		t.Errorf("%s", log)
	}
	for _, args := range [][]string{{"--format", "squid"}, {"--lines", "-1"}, {"--per-second", "0"}, {"--start", "noon"}, {"access.log"}, {"--lins", "3"}} {
		var stdout, stderr bytes.Buffer
		if code := run(args, &stdout, &stderr); code != 2 || !strings.HasPrefix(stderr.String(), "loggen: ") && !strings.Contains(stderr.String(), "\nloggen: ") {
			t.Errorf("%q: exit code %d, %s", args, code, stderr.String())
		}
	}
}
