package main

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/tidegate-go/tidegate/rules/live"
	"github.com/tidegate-go/tidegate/rules/source"
)

// Validate called a file good that serve refused, since it read sixteen times as much. Both say the same of it now, and so does push.
func TestFaultLongFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "rules.yaml")
	write := func(n int) []byte {
		t.Helper()
		text := append([]byte("version: 1\nrules:\n  - {name: a, limit: 1/s}\n"), bytes.Repeat([]byte("#"), n)...)[:n]
		if err := os.WriteFile(path, text, 0o600); err != nil {
			t.Fatal(err)
		}
		return text
	}
	served := func() (failed error) {
		t.Helper()
		f, err := live.NewFile(path, nil)
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		_ = f.Watch(ctx, func(_ source.Document, err error) {
			failed = err
			cancel()
		})
		return failed
	}
	text := write(source.MaxText)
	_, err := loadRules(nil, path)
	if failed := served(); err != nil || failed != nil {
		t.Errorf("of the longest text validate says %v, serve %v", err, failed)
	}
	text = append(text, '#')
	write(source.MaxText + 1)
	_, err = loadRules(nil, path)
	failed := served()
	if err == nil || failed == nil || err.Error() != failed.Error() || !strings.Contains(err.Error(), "rules.yaml is too long: rules have at most 4194304 bytes") {
		t.Errorf("validate says %v, serve %v", err, failed)
	}
	if _, err = loadRules(bytes.NewReader(text), standardInput); err == nil || !strings.Contains(err.Error(), "stdin is too long") {
		t.Errorf("of standard input validate says %v", err)
	}
	if err := source.CheckPush(text, "", 0); err == nil || !strings.Contains(err.Error(), "is too long: rules have at most 4194304 bytes") {
		t.Errorf("push says %v", err)
	}
}
