package experiment

import (
	"encoding/xml"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
)

// The picture, in pixels: a panel for each run, one under the other, all by one scale.
const (
	panelWidth, panelHeight = 720, 120
	marginLeft, marginRight = 64, 24
	marginTop               = 44
	panelGap                = 46
	footer                  = 24
	svgSpan                 = 100 * time.Millisecond // of a bar
)

// The elements of SVG that are used here; encoding/xml sees to what must be escaped.
type (
	svgDocument struct {
		XMLName xml.Name   `xml:"http://www.w3.org/2000/svg svg"`
		Width   int        `xml:"width,attr"`
		Height  int        `xml:"height,attr"`
		ViewBox string     `xml:"viewBox,attr"`
		Role    string     `xml:"role,attr"`
		Title   string     `xml:"title"`
		Style   string     `xml:"style"`
		Back    svgRect    `xml:"rect"`
		Panels  []svgPanel `xml:"g"`
		Texts   []svgText  `xml:"text"`
	}
	svgPanel struct {
		Transform string    `xml:"transform,attr"`
		Title     string    `xml:"title"`
		Rects     []svgRect `xml:"rect"`
		Paths     []svgPath `xml:"path"`
		Texts     []svgText `xml:"text"`
	}
	svgRect struct {
		X      string `xml:"x,attr"`
		Y      string `xml:"y,attr"`
		Width  string `xml:"width,attr"`
		Height string `xml:"height,attr"`
		Class  string `xml:"class,attr"`
	}
	svgPath struct {
		D     string `xml:"d,attr"`
		Class string `xml:"class,attr"`
	}
	svgText struct {
		X     string `xml:"x,attr"`
		Y     string `xml:"y,attr"`
		Class string `xml:"class,attr"`
		Text  string `xml:",chardata"`
	}
)

const svgStyle = `
.back{fill:#fff}.away{fill:#f6d5d0}.seen{fill:#2f6f9f}.axis{stroke:#888;fill:none}.limit{stroke:#c0392b;stroke-dasharray:5 3;fill:none}
text{font:12px system-ui,sans-serif;fill:#333}.head{font-size:15px;font-weight:600}.name{font-weight:600}
.end{text-anchor:end}.mid{text-anchor:middle}.quiet{fill:#777}
`

// SVG draws what the downstream saw in each 100 ms of all runs, the limit's rate, and when the store was away.
func SVG(traces []*Trace) ([]byte, error) {
	most := 1
	all := make([][]int, len(traces))
	title := "Requests at the downstream per " + svgSpan.String()
	if len(traces) > 0 {
		title += fmt.Sprintf("; limit %s, %d replicas", traces[0].plan.Limit, traces[0].plan.Replicas)
	}
	for i, t := range traces {
		all[i] = t.arrivals.bins(svgSpan, t.plan.Duration)
		most = max(most, slices.Max(all[i]), int(perSecond(t.plan.Limit)*svgSpan.Seconds()))
	}
	height := marginTop + len(traces)*(panelHeight+panelGap) + footer
	doc := svgDocument{
		Width: marginLeft + panelWidth + marginRight, Height: height, Role: "img", Title: title, Style: svgStyle,
		Back:  svgRect{X: "0", Y: "0", Width: "100%", Height: "100%", Class: "back"},
		Texts: []svgText{{X: px(marginLeft), Y: "24", Class: "head", Text: title}},
	}
	doc.ViewBox = fmt.Sprintf("0 0 %d %d", doc.Width, doc.Height)
	for i, t := range traces {
		p := t.panel(all[i], most)
		p.Transform = fmt.Sprintf("translate(%d %d)", marginLeft, marginTop+i*(panelHeight+panelGap)+panelGap/2)
		doc.Panels = append(doc.Panels, p)
	}
	doc.Texts = append(doc.Texts, svgText{
		X: px(marginLeft), Y: px(float64(height - footer/2)), Class: "quiet",
		Text: "dashed: what the limit's rate allows; shaded: the store is away",
	})
	b, err := xml.MarshalIndent(&doc, "", " ")
	if err != nil {
		return nil, err
	}
	return append(append([]byte(xml.Header), b...), '\n'), nil
}

// panel draws one run.
func (t *Trace) panel(counts []int, most int) svgPanel {
	x := func(at time.Duration) float64 { return panelWidth * at.Seconds() / t.plan.Duration.Seconds() }
	y := func(n float64) float64 { return panelHeight * (1 - n/float64(most)) }
	p := svgPanel{Title: t.name()}
	if o := t.outage; o.to > 0 {
		p.Rects = append(p.Rects, svgRect{X: px(x(o.from)), Y: "0", Width: px(x(o.to) - x(o.from)), Height: px(panelHeight), Class: "away"})
	}
	var bars strings.Builder
	for i, n := range counts {
		from, to := x(time.Duration(i)*svgSpan), min(panelWidth, x(time.Duration(i+1)*svgSpan))
		if n > 0 {
			fmt.Fprintf(&bars, "M%s %dV%sH%sV%dZ", px(from), panelHeight, px(y(float64(n))), px(to), panelHeight)
		}
	}
	level := perSecond(t.plan.Limit) * svgSpan.Seconds()
	p.Paths = []svgPath{
		{D: bars.String(), Class: "seen"},
		{D: fmt.Sprintf("M0 0V%dH%d", panelHeight, panelWidth), Class: "axis"},
		{D: fmt.Sprintf("M0 %sH%d", px(y(level)), panelWidth), Class: "limit"},
	}
	r := t.Result()
	name := fmt.Sprintf("%s: peak %d in a second", t.name(), r.PeakSecond)
	if r.OutagePeakSecond != nil {
		name += fmt.Sprintf(", %d in the outage, %d after", *r.OutagePeakSecond, *r.RecoveryPeakSecond)
	}
	p.Texts = []svgText{
		{X: "0", Y: "-6", Class: "name", Text: name},
		{X: "-8", Y: "8", Class: "end quiet", Text: strconv.Itoa(most)},
		{X: "-8", Y: px(panelHeight), Class: "end quiet", Text: "0"},
		{X: "0", Y: px(panelHeight + 14), Class: "mid quiet", Text: "0s"},
		{X: px(panelWidth), Y: px(panelHeight + 14), Class: "mid quiet", Text: t.plan.Duration.String()},
	}
	return p
}

// px writes a coordinate, to a tenth of a pixel.
func px(x float64) string { return strconv.FormatFloat(x, 'f', 1, 64) }
