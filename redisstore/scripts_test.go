package redisstore

import (
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/tidegate-go/tidegate/internal/redistest"
)

// namedScripts returns every script that is sent to a server.
func namedScripts(injected bool) map[string]*script {
	s := newScripts(injected)
	named := map[string]*script{"run": s.run, "beat": s.beat, "rules": s.rules}
	for name, set := range map[string]scriptSet{"take": s.take, "settle": s.settle, "permit": s.permit} {
		named[name+" for buckets"], named[name] = set.buckets, set.all
	}
	return named
}

func readScript(t *testing.T, file string) string {
	t.Helper()
	text, err := sources.ReadFile("scripts/" + file)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func scriptFiles(t *testing.T) []string {
	t.Helper()
	entries, err := sources.ReadDir("scripts")
	if err != nil {
		t.Fatal(err)
	}
	var files []string
	for _, e := range entries {
		files = append(files, e.Name())
	}
	return files
}

// luaToken matches the tokens of Lua, as far as the scripts use them.
var luaToken = regexp.MustCompile(`--[^\n]*|'(?:\\.|[^'\\\n])*'|[A-Za-z_]\w*|\d+(?:\.\d+)?|\.\.\.|\.\.|[=~<>]=|\S`)

// luaTokens returns the tokens of a text without its comments.
func luaTokens(text string) []string {
	return slices.DeleteFunc(luaToken.FindAllString(text, -1), func(tok string) bool { return strings.HasPrefix(tok, "--") })
}

var luaName = regexp.MustCompile(`^[A-Za-z_]\w*$`)

func isName(tok string) bool { return luaName.MatchString(tok) && !slices.Contains(luaKeywords, tok) }

var luaKeywords = strings.Fields("and break do else elseif end false for function if in local nil not or repeat return then true until while")

// TestClockLine: each script reads the clock on one line, and the scripts for tests and replay differ in that line alone.
func TestClockLine(t *testing.T) {
	injected := namedScripts(true)
	for name, sc := range namedScripts(false) {
		if n := strings.Count(sc.source, clockLine); n != 1 {
			t.Errorf("%s has the clock line %d times", name, n)
		}
		if n := slices.Index(luaTokens(strings.Replace(sc.source, clockLine, "", 1)), "'TIME'"); n >= 0 {
			t.Errorf("%s reads the clock elsewhere too", name)
		}
		if want := strings.Replace(sc.source, clockLine, injectedClock, 1); injected[name].source != want {
			t.Errorf("%s differs from the injected one in more than the clock", name)
		}
	}
}

// TestServerNamesScriptsAsWeDo: every script compiles on the server, under the digest that we call it by.
func TestServerNamesScriptsAsWeDo(t *testing.T) {
	srv := redistest.Start(t)
	for _, injected := range []bool{false, true} {
		for name, sc := range namedScripts(injected) {
			if digest := command(t, srv, "SCRIPT", "LOAD", sc.source); digest != sc.digest {
				t.Errorf("%s: the server calls it %v, we %s", name, digest, sc.digest)
			}
		}
	}
}

// TestScriptContracts: what is called says what it takes and returns before anything else, and the rest what it is.
func TestScriptContracts(t *testing.T) {
	for _, file := range scriptFiles(t) {
		text := readScript(t, file)
		head := regexp.MustCompile(`^(--[^\n]*\n)+`).FindString(text)
		if head == "" {
			t.Errorf("%s does not begin with a comment", file)
		}
		if file != "run.lua" && file != "several.lua" && file != "windows.lua" && file != "take.lua" && file != "settle.lua" && file != "permit.lua" && file != "beat.lua" && file != "rules.lua" {
			continue
		}
		if verb := strings.TrimSuffix(file, ".lua"); !strings.HasPrefix(head, "-- "+verb+": ") {
			t.Errorf("%s does not begin by telling what it does", file)
		}
		at := 0
		for _, part := range []string{"KEYS: ", "ARGV: ", "\n-- Returns: "} {
			i := strings.Index(head[at:], part)
			if i < 0 {
				t.Errorf("%s does not tell %q in its place", file, strings.TrimSpace(part))
				break
			}
			at += i
		}
	}
}

// textual are the things that the scripts concatenate: texts, never numbers, which Lua would write in its own way.
// Whoever adds one has looked.
var textual = map[string]bool{
	"num": true, "at": true, "table.concat": true, "kind.encode": true, "pack": true, "struct.pack": true, // functions that return texts
	"width": true, "calendar": true, "p.calendar": true, "version": true, "spec": true, "a": true, // as they were matched
	"tail": true, "l.tail": true, "state": true, "ours": true, "when": true, "sub": true, "rep": true, "(newer [ i ] or l.tail)": true, "none": true, "sum": true, "string.format": true, "format": true, "bucket.text": true, "p.kind": true, "KEYS[]": true, "id": true, "e[]": true, "tostring": true, "field": true,
	"(ok and '1 ' or '0 ')": true, "(thrown.fail or thrown.err)": true,
}

// TestNumbersLeaveThroughNum: no number becomes a text but through num, since Lua writes 1796025600123456 as
// 1.7960256001235e+15.
func TestNumbersLeaveThroughNum(t *testing.T) {
	for _, file := range scriptFiles(t) {
		toks := luaTokens(readScript(t, file))
		for i, tok := range toks {
			switch {
			case tok == "..":
				for _, operand := range []string{operandBefore(toks, i-1), operandAfter(toks, i+1)} {
					if !textual[operand] && !strings.HasPrefix(operand, "'") {
						t.Errorf("%s concatenates %s, which may be a number: … %s …", file, operand, strings.Join(toks[max(0, i-8):min(len(toks), i+8)], " "))
					}
				}
			case tok == "tostring" && strings.Join(toks[i:i+4], "") != "tostring(thrown)":
				t.Errorf("%s writes something with tostring", file)
			case (tok == "call" || tok == "pcall_") && toks[i+1] == "(":
				for j := i + 2; toks[j] != ")"; j++ {
					if strings.Trim(toks[j], "0123456789") == "" && (toks[j-1] == "," || toks[j-1] == "-" && toks[j-2] == ",") {
						t.Errorf("%s gives the server the number %s", file, toks[j])
					}
				}
			}
		}
	}
}

// operandAfter names the operand that begins at toks[i]: a text, a variable, the function of a call, or what is in parentheses.
func operandAfter(toks []string, i int) string {
	if toks[i] == "(" {
		return joined(toks[i : closing(toks, i)+1])
	}
	name := toks[i]
	for i++; i < len(toks); {
		switch toks[i] {
		case ".":
			name += "." + toks[i+1]
			i += 2
		case "[":
			name += "[]"
			i = closing(toks, i) + 1
		default:
			return name
		}
	}
	return name
}

// operandBefore names the operand that ends at toks[i].
func operandBefore(toks []string, i int) string {
	start := i
	for {
		for toks[start] == ")" || toks[start] == "]" {
			start = opening(toks, start)
			if start == 0 || !isName(toks[start-1]) {
				return joined(toks[start : i+1])
			}
			start--
		}
		if start == 0 || toks[start-1] != "." {
			return operandAfter(toks, start)
		}
		start -= 2
	}
}

var brackets = map[string]int{"(": 1, "[": 1, ")": -1, "]": -1}

func closing(toks []string, i int) int {
	for depth := 0; ; i++ {
		if depth += brackets[toks[i]]; depth == 0 {
			return i
		}
	}
}

func opening(toks []string, i int) int {
	for depth := 0; ; i-- {
		if depth -= brackets[toks[i]]; depth == 0 {
			return i
		}
	}
}

// joined writes tokens as one would.
func joined(toks []string) string {
	text := strings.Join(toks, " ")
	return strings.NewReplacer("( ", "(", " )", ")", " . ", ".").Replace(text)
}

// TestScriptsSetNoGlobals: every name that a script uses is local to it, an argument, or Lua's. The server refuses others
// too, but only when it comes to them.
func TestScriptsSetNoGlobals(t *testing.T) {
	lua := strings.Fields("redis struct KEYS ARGV string table math error pcall tostring tonumber pairs ipairs unpack type")
	for name, sc := range namedScripts(false) {
		toks := luaTokens(sc.source)
		declared := map[string]bool{}
		for _, n := range lua {
			declared[n] = true
		}
		declare := func(i int) { // a list of names
			for ; isName(toks[i]); i += 2 {
				declared[toks[i]] = true
				if toks[i+1] != "," {
					return
				}
			}
		}
		for i, tok := range toks {
			switch tok {
			case "local":
				if toks[i+1] == "function" {
					i++
				}
				declare(i + 1)
			case "for":
				declare(i + 1)
			case "function":
				for toks[i] != "(" {
					i++
				}
				declare(i + 1)
			}
		}
		for i, tok := range toks {
			field := i > 0 && toks[i-1] == "."
			key := i > 0 && (toks[i-1] == "{" || toks[i-1] == ",") && i+1 < len(toks) && toks[i+1] == "="
			if isName(tok) && !field && !key && !declared[tok] {
				t.Errorf("%s uses %s, which is not local: … %s …", name, tok, strings.Join(toks[max(0, i-6):min(len(toks), i+6)], " "))
			}
			if tok == "function" && isName(toks[i+1]) && toks[i+2] == "(" && toks[i-1] != "local" {
				t.Errorf("%s sets the global function %s", name, toks[i+1])
			}
		}
	}
}
