package replay

import (
	"strings"
	"testing"
)

// What the table says of numbers that are not what they seem, the page says too.
func TestTableAndPageSayTheSame(t *testing.T) {
	r := &Report{
		Requests: 100, Parsed: 1000, Skipped: 1234, Late: 30, Long: 13, Moved: 2, Unmoved: 17, Interrupted: true,
		Bad:   []BadLine{{"a.log", 3, "no time"}, {"a.log", 4, "no time"}},
		Rules: []RuleReport{{Name: "many", Estimated: true}, {Name: "most", Forgotten: true}}, Unreplayed: []string{"pool"}, Forgotten: 4321,
		Delayed: 55, LongestDelay: 1.5,
	}
	var table, page strings.Builder
	if err := r.WriteText(&table); err != nil {
		t.Fatal(err)
	}
	if err := r.WriteHTML(&page); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"Interrupted: this is the report so far.", "1,234", "1,232 more", "17 out of order", "13 took longer than the window", "17 unmoved",
		"many has more than a million keys", "most refused too many keys", "pool was left out", "4,321 buckets were forgotten", "55", "1.5s",
		"a.log:3: no time",
	} {
		if !strings.Contains(table.String(), want) {
			t.Errorf("the table does not say %q:\n%s", want, table.String())
		}
		if !strings.Contains(page.String(), want) {
			t.Errorf("the page does not say %q", want)
		}
	}
}

// Nothing that a log, or its name, holds moves the cursor of a terminal.
func TestTableIsPrintable(t *testing.T) {
	const evil = "\x1b[2J\u202e\r"
	r := &Report{
		Requests: 1, Skipped: 1, Bad: []BadLine{{evil + ".log", 1, evil}}, Rules: []RuleReport{{Name: evil, Estimated: true}}, Unreplayed: []string{evil},
		TopRefused: []KeyCount{{evil, evil, 1}}, Compare: &Comparison{WhoRefused: []KeyCount{{evil, evil, 1}}},
	}
	var table strings.Builder
	if err := r.WriteText(&table); err != nil {
		t.Fatal(err)
	}
	if strings.ContainsAny(table.String(), evil[:1]+"\u202e\r") {
		t.Errorf("%q", table.String())
	}
}
