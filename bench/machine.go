package main

import (
	"fmt"
	"os"
	"runtime"
	"strings"
)

// machine says what it is measured on: Go and the platform, the processor, the cores in use, the system.
func machine() string {
	s := fmt.Sprintf("%s %s/%s, %s, %d cores", runtime.Version(), runtime.GOOS, runtime.GOARCH, processor(), runtime.GOMAXPROCS(0))
	if name := fieldOf("/etc/os-release", "PRETTY_NAME", "="); name != "" {
		s += ", " + strings.Trim(name, `"`)
	}
	return s
}

func processor() string {
	if name := fieldOf("/proc/cpuinfo", "model name", ":"); name != "" {
		return name
	}
	return "a processor without a name"
}

// fieldOf returns the first value of that name in a file of names and values, or nothing.
func fieldOf(path, name, separator string) string {
	b, _ := os.ReadFile(path)
	for line := range strings.Lines(string(b)) {
		if key, value, ok := strings.Cut(line, separator); ok && strings.TrimSpace(key) == name {
			return strings.TrimSpace(value)
		}
	}
	return ""
}
