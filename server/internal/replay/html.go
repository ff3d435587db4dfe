package replay

import (
	_ "embed" // for the template
	"html/template"
	"io"
	"strings"

	"github.com/tidegate-go/tidegate/server/internal/chart"
)

//go:embed report.html
var page string

var pageTemplate = template.Must(template.New("report").Funcs(template.FuncMap{
	"number":  number,
	"percent": percent,
	"roughly": roughly,
	"waits":   waits,
	"or":      func(text, other string) string { return map[bool]string{true: other, false: text}[text == ""] },
}).Parse(page))

// WriteHTML writes the report as one page that needs no other file and no network.
func (r *Report) WriteHTML(w io.Writer) error {
	return pageTemplate.Execute(w, struct {
		*Report

		TimeNotes   []string
		CountNotes  []string
		MoreSkipped int64
		Script      template.JS
		Style       template.CSS
	}{
		r, r.timeNotes(), r.countNotes(), r.moreSkipped(),
		template.JS(scriptSafe(chart.Script)), template.CSS(chart.Style), //nolint:gosec // both are files of this program
	})
}

// scriptSafe keeps the text of a script from ending it.
func scriptSafe(script string) string { return strings.ReplaceAll(script, "</script", `<\/script`) }
