package main

import (
	"bytes"
	"errors"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"go.yaml.in/yaml/v4"

	"github.com/tidegate-go/tidegate/rules"
)

// serveHelp is what serve says of its flags.
func serveHelp(t *testing.T) string {
	t.Helper()
	var out bytes.Buffer
	cmd := newRoot()
	cmd.SetOut(&out)
	cmd.SetArgs([]string{"serve", "--help"})
	must(t, cmd.Execute())
	return out.String()
}

var aFlag = regexp.MustCompile(`--([a-z][a-z-]+)`)

// commandOf is the command of a service of a compose file.
func commandOf(t *testing.T, name, service string) []string {
	t.Helper()
	words, _ := at(documents(t, name)[0], "services", service, "command").([]any)
	var command []string
	for _, w := range words {
		command = append(command, w.(string))
	}
	return command
}

// TestFlagsExist holds the files that start the service to flags that it has.
func TestFlagsExist(t *testing.T) {
	help := serveHelp(t)
	for _, name := range []string{
		"systemd/tidegate.service", "kubernetes/deployment.yaml", "envoy/compose.yaml",
	} {
		text := string(deployed(t, name))
		if name == "envoy/compose.yaml" { // others than ours start there
			text = strings.Join(commandOf(t, name, "tidegate"), " ")
		}
		found := 0
		for _, m := range aFlag.FindAllStringSubmatch(text, -1) {
			found++
			if !strings.Contains(help, "--"+m[1]+" ") {
				t.Errorf("%s gives --%s, which serve does not have", name, m[1])
			}
		}
		if found == 0 {
			t.Errorf("%s gives no flags: is it what it should be?", name)
		}
	}
}

// TestUnit asks systemd about its unit. Where the binary would be, this test is.
func TestUnit(t *testing.T) {
	path := tool(t, "systemd-analyze", false)
	self, err := os.Executable()
	must(t, err)
	unit := filepath.Join(t.TempDir(), "tidegate.service")
	text := bytes.ReplaceAll(deployed(t, "systemd/tidegate.service"), []byte("/usr/local/bin/tidegate"), []byte(self))
	must(t, os.WriteFile(unit, text, 0o600))
	if out := runTool(t, ".", nil, path, "verify", unit); strings.Contains(out, "tidegate.service:") {
		t.Errorf("systemd-analyze verify says:\n%s", out)
	}
}

// documents reads the YAML documents of a file.
func documents(t *testing.T, name string) []map[string]any {
	t.Helper()
	var all []map[string]any
	d := yaml.NewDecoder(bytes.NewReader(deployed(t, name)))
	for {
		var doc map[string]any
		err := d.Decode(&doc)
		if errors.Is(err, io.EOF) {
			return all
		}
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		all = append(all, doc)
	}
}

// at finds what is at a path of keys and indices, nil if nothing is.
func at(v any, path ...any) any {
	for _, step := range path {
		switch s := step.(type) {
		case string:
			m, _ := v.(map[string]any)
			v = m[s]
		case int:
			l, _ := v.([]any)
			if s >= len(l) {
				return nil
			}
			v = l[s]
		}
	}
	return v
}

// TestManifests holds the manifests to each other and to the service: labels, ports, probes, names, and rules that load.
func TestManifests(t *testing.T) {
	kinds := map[string]map[string]any{}
	kustomization := documents(t, "kubernetes/kustomization.yaml")[0]
	listed, _ := kustomization["resources"].([]any)
	files, err := filepath.Glob(filepath.Join(deployDir, "kubernetes", "*.yaml"))
	must(t, err)
	if len(files) != len(listed)+1 {
		t.Errorf("there are %d files, and the kustomization lists %v", len(files), listed)
	}
	for _, name := range listed {
		for _, doc := range documents(t, "kubernetes/"+name.(string)) {
			kinds[doc["kind"].(string)] = doc
		}
	}
	deployment, service, budget := kinds["Deployment"], kinds["Service"], kinds["PodDisruptionBudget"]
	label := at(deployment, "spec", "template", "metadata", "labels", "app.kubernetes.io/name")
	for what, selected := range map[string]any{
		"the deployment": at(deployment, "spec", "selector", "matchLabels", "app.kubernetes.io/name"),
		"the service":    at(service, "spec", "selector", "app.kubernetes.io/name"),
		"the budget":     at(budget, "spec", "selector", "matchLabels", "app.kubernetes.io/name"),
	} {
		if selected == nil || selected != label {
			t.Errorf("%s selects %v, and the pods are %v", what, selected, label)
		}
	}
	container := at(deployment, "spec", "template", "spec", "containers", 0)
	for probe, path := range map[string]string{"livenessProbe": "/healthz", "readinessProbe": "/readyz", "startupProbe": "/healthz"} {
		if at(container, probe, "httpGet", "path") != path || at(container, probe, "httpGet", "port") != at(container, "ports", 0, "name") {
			t.Errorf("%s asks %v", probe, at(container, probe, "httpGet"))
		}
	}
	if at(service, "spec", "ports", 0, "targetPort") != at(container, "ports", 0, "name") {
		t.Error("the service sends elsewhere than the container listens")
	}
	if at(deployment, "spec", "template", "spec", "volumes", 0, "configMap", "name") != at(kinds["ConfigMap"], "metadata", "name") {
		t.Error("the rules that are mounted are not those of the map")
	}
	text, _ := at(kinds["ConfigMap"], "data", "rules.yaml").(string)
	if _, err := rules.Parse("rules.yaml", []byte(text)); err != nil {
		t.Errorf("the rules of the map are bad: %v", err)
	}
	grace, _ := at(deployment, "spec", "template", "spec", "terminationGracePeriodSeconds").(int)
	if grace < 5+15 {
		t.Errorf("pods are killed after %d s, before they have drained", grace)
	}
}
