package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

const apiDocs = "../../../docs/api.md"

var (
	// docBlock is a command of the page, and the answer that is shown after it, if one is.
	docBlock = regexp.MustCompile("(?m)^```sh\n((?s:.*?))^```\n(?:\n```json (\\d+)\n(.*)\n```\n)?")
	// changing are members that differ from one run to the next: of them only the type is compared.
	changing = []string{
		"version", "id", "at", "since", "uptime_seconds", "remaining", "retry_after_seconds", "reset_after_seconds", "delay_seconds",
		"count", "p50", "p99", "store_latency_seconds",
	}
	// idOrVersion finds members that later commands name again: what the page shows stands for what was answered.
	idOrVersion = regexp.MustCompile(`"(?:id|version)":("[^"]+"|\d{3,})`)
)

// TestAPIDocs runs the commands of docs/api.md one after the other, and compares the answers with those that it shows.
func TestAPIDocs(t *testing.T) {
	if _, err := exec.LookPath("curl"); err != nil {
		t.Fatalf("the commands need curl: %v", err)
	}
	page, err := os.ReadFile(apiDocs)
	if err != nil {
		t.Fatal(err)
	}
	const token = "a long random word"
	tokenFile := filepath.Join(t.TempDir(), "token")
	if err := os.WriteFile(tokenFile, []byte(token), 0o600); err != nil {
		t.Fatal(err)
	}
	s := serve(t, "--token-file", tokenFile)
	dir := t.TempDir()
	meant := map[string]string{} // what the page shows, and what it is in this run
	blocks := docBlock.FindAllStringSubmatch(string(page), -1)
	answers := 0
	for _, b := range blocks {
		command, want := b[1], b[3]
		for old, now := range meant {
			command, want = strings.ReplaceAll(command, old, now), strings.ReplaceAll(want, old, now)
		}
		script := "curl() { command curl -w '\\n%{http_code}' \"$@\"; }\n" + strings.ReplaceAll(command, "localhost:8080", strings.TrimPrefix(s.url, "http://"))
		cmd := exec.Command("sh", "-ec", script)
		cmd.Dir = dir
		cmd.Env = append(os.Environ(), "TOKEN="+token, "no_proxy=*")
		var stderr bytes.Buffer
		cmd.Stderr = &stderr
		out, err := cmd.Output()
		if err != nil {
			t.Fatalf("%s: %v\n%s", command, err, &stderr)
		}
		if b[2] == "" {
			continue
		}
		answers++
		end := bytes.LastIndexByte(out, '\n')
		got, status := out[:max(end, 0)], string(out[end+1:])
		if status != b[2] {
			t.Errorf("%sis answered %s %s, want %s", command, status, got, b[2])
			continue
		}
		if problem := unlike(t, []byte(want), got); problem != "" {
			t.Errorf("%sis answered\n%s\nand %s\nwant\n%s", command, got, problem, want)
		}
		shownNames, names := idOrVersion.FindAllStringSubmatch(want, -1), idOrVersion.FindAllStringSubmatch(string(got), -1)
		for i := range min(len(shownNames), len(names)) {
			if old := shownNames[i][1]; old != names[i][1] {
				meant[strings.Trim(old, `"`)] = strings.Trim(names[i][1], `"`)
			}
		}
	}
	if answers < 20 {
		t.Errorf("%s shows %d answers: are its blocks read rightly?", apiDocs, answers)
	}
}

// TestAPIDocsAreComplete holds the page to have a command for each path that is answered.
func TestAPIDocsAreComplete(t *testing.T) {
	routes, err := os.ReadFile("../../routes.go")
	if err != nil {
		t.Fatal(err)
	}
	page, err := os.ReadFile(apiDocs)
	if err != nil {
		t.Fatal(err)
	}
	var commands strings.Builder
	for _, b := range docBlock.FindAllStringSubmatch(string(page), -1) {
		commands.WriteString(b[1])
	}
	paths := regexp.MustCompile(`"(?:[A-Z]+ )?(/(?:v1/[a-z]+|[a-z]+z|metrics))"`).FindAllStringSubmatch(string(routes), -1)
	if len(paths) < 15 {
		t.Errorf("only %d paths are found", len(paths))
	}
	for _, p := range paths {
		if !strings.Contains(commands.String(), "localhost:8080"+p[1]) {
			t.Errorf("no command is shown for %s", p[1])
		}
	}
}

// unlike says where two answers differ; empty if they do not but in what changes from run to run.
func unlike(t *testing.T, want, got []byte) string {
	t.Helper()
	var w, g any
	if err := json.Unmarshal(want, &w); err != nil {
		t.Fatalf("%s: %v", want, err)
	}
	if err := json.Unmarshal(got, &g); err != nil {
		return err.Error()
	}
	return differs("", w, g)
}

func differs(name string, want, got any) string {
	w, isObject := want.(map[string]any)
	switch g := got.(type) {
	case map[string]any:
		if !isObject {
			return fmt.Sprintf("%s is an object", name)
		}
		for key := range g {
			if _, ok := w[key]; !ok {
				return fmt.Sprintf("has %q besides", key)
			}
		}
		for key, value := range w {
			have, ok := g[key]
			if !ok {
				return fmt.Sprintf("lacks %q", key)
			}
			if problem := differs(key, value, have); problem != "" {
				return problem
			}
		}
		return ""
	case []any:
		ws, ok := want.([]any)
		if !ok || len(ws) != len(g) {
			return fmt.Sprintf("%s has %d elements", name, len(g))
		}
		for i := range g {
			if problem := differs(name, ws[i], g[i]); problem != "" {
				return problem
			}
		}
		return ""
	}
	if slices.Contains(changing, name) {
		if fmt.Sprintf("%T", want) != fmt.Sprintf("%T", got) {
			return fmt.Sprintf("%s is a %T", name, got)
		}
		return ""
	}
	if want != got {
		return fmt.Sprintf("%s is %v", name, got)
	}
	return ""
}
