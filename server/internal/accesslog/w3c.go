package accesslog

import (
	"errors"
	"fmt"
	"net/url"
	"strings"
)

// w3cFormat reads CloudFront's standard logs, and others in the W3C's extended format: columns between tabs (or spaces), which a
// line "#Fields:" names.
type w3cFormat struct {
	columns []string
}

// cloudfront are the columns of a log without a heading: what is read on its own, from the middle of a file, lacks it.
// https://docs.aws.amazon.com/AmazonCloudFront/latest/DeveloperGuide/standard-logs-reference.html
var cloudfront = strings.Fields(`date time x-edge-location sc-bytes c-ip cs-method cs(Host) cs-uri-stem sc-status cs(Referer)
cs(User-Agent) cs-uri-query cs(Cookie) x-edge-result-type x-edge-request-id x-host-header cs-protocol cs-bytes time-taken
x-forwarded-for ssl-protocol ssl-cipher x-edge-response-result-type cs-protocol-version fle-status fle-encrypted-fields c-port
time-to-first-byte x-edge-detailed-result-type sc-content-type sc-content-len sc-range-start sc-range-end`)

// Read implements [Format].
func (f *w3cFormat) Read(line string, e *Entry) error {
	if heading, ok := strings.CutPrefix(line, "#"); ok {
		if names, ok := strings.CutPrefix(heading, "Fields:"); ok {
			f.columns = strings.Fields(names)
		}
		return ErrHeading
	}
	columns, separator := f.columns, "\t"
	if columns == nil {
		columns = cloudfront
	} else if !strings.Contains(line, "\t") {
		separator = " "
	}
	e.reset(len(columns) + 2)
	var date string
	n := 0
	for value := range strings.SplitSeq(line, separator) {
		if n == len(columns) {
			return fmt.Errorf("more than the %d columns that the heading names", n)
		}
		name := columns[n]
		n++
		switch name {
		case "date":
			date = value
			continue
		case "time":
			if err := e.setTime(date + "T" + value); err != nil {
				return err
			}
			continue
		case "timestamp", "timestamp(ms)":
			if err := e.setTime(value); err != nil {
				return err
			}
			continue
		}
		e.column(name, value)
	}
	if n < len(columns) && n < len(cloudfront) && (f.columns != nil || n < 20) {
		return fmt.Errorf("%d columns where the heading names %d", n, len(columns))
	}
	if e.Time.IsZero() {
		return errors.New("there are no columns date and time: the heading #Fields names them")
	}
	return nil
}

// column adds a column, of which CloudFront escapes what is not plain ASCII.
func (e *Entry) column(name, value string) {
	switch name {
	case "cs-uri-stem":
		e.add(Path, value)
		return
	case "cs-uri-query":
		e.add(Query, value)
		return
	}
	if strings.Contains(value, "%") {
		if text, err := url.PathUnescape(value); err == nil {
			value = text
		}
	}
	switch name {
	case "c-ip":
		e.add(Address, value)
	case "cs-method":
		e.add(Method, value)
	case "sc-status":
		e.add(Status, value)
	case "x-host-header":
		e.add(Host, value)
	case "cs-username":
		e.add(User, value)
	case "x-forwarded-for":
		e.add(HeaderPrefix+"x_forwarded_for", value)
	case "cs-version", "cs-protocol-version":
		e.add(Protocol, value)
	}
	if header, ok := strings.CutPrefix(name, "cs("); ok {
		e.add(HeaderPrefix+strings.ReplaceAll(strings.ToLower(strings.TrimSuffix(header, ")")), "-", "_"), value)
		return
	}
	e.add(name, value)
}
