package accesslog

import (
	"fmt"
	"strings"
)

// Names are the formats that [Named] knows, but for auto.
var Names = []string{"combined", "common", "json", "envoy", "alb", "cloudfront", "caddy", "logfmt"}

// The formats of texts and variables. Columns that were added at the end, as many do, are passed over.
var patterns = map[string][]string{
	// https://httpd.apache.org/docs/2.4/logs.html, and nginx's default.
	"common":   {`$remote_addr $ident $remote_user [$time_local] "$request" $status $body_bytes_sent`},
	"combined": {`$remote_addr $ident $remote_user [$time_local] "$request" $status $body_bytes_sent "$http_referer" "$http_user_agent"`},
	// https://www.envoyproxy.io/docs/envoy/latest/configuration/observability/access_log/usage, and Istio's default.
	"envoy": {
		`[$start_time] "$request" $status $response_flags $bytes_received $body_bytes_sent $duration_ms $upstream_service_time_ms ` +
			`"$http_x_forwarded_for" "$http_user_agent" "$http_x_request_id" "$http_host" "$upstream_host"`,
		`[$start_time] "$request" $status $response_flags $response_code_details $connection_termination_details ` +
			`"$upstream_transport_failure_reason" $bytes_received $body_bytes_sent $duration_ms $upstream_service_time_ms ` +
			`"$http_x_forwarded_for" "$http_user_agent" "$http_x_request_id" "$http_host" "$upstream_host"`,
	},
	// https://docs.aws.amazon.com/elasticloadbalancing/latest/application/load-balancer-access-logs.html
	"alb": {
		`$type $end_time $elb $remote_addr_port $target_addr $request_processing_time $target_processing_time ` +
			`$response_processing_time $status $target_status_code $received_bytes $sent_bytes "$request" "$http_user_agent" ` +
			`$ssl_cipher $ssl_protocol $target_group_arn "$trace_id" "$domain_name" "$chosen_cert_arn" $matched_rule_priority ` +
			`$start_time "$actions_executed"`,
	},
}

// Named returns what makes the format of the name for each file, or of a format string: see [Names] and [Compile]. Of the formats
// whose fields have names of their own, a timeField says which is the time; if it is empty, one that is called so.
func Named(name, timeField string) (func() Format, error) {
	switch name {
	case "json", "caddy":
		return func() Format { return &jsonFormat{time: timeField} }, nil
	case "logfmt":
		return func() Format { return &logfmtFormat{timeField} }, nil
	case "cloudfront":
		return func() Format { return new(w3cFormat) }, nil
	}
	if formats, ok := patterns[name]; ok {
		var either either
		for _, f := range formats {
			p, err := compile("the format "+name, f, true)
			if err != nil {
				return nil, err // a slip in this file
			}
			either = append(either, p)
		}
		return func() Format { return either }, nil
	}
	if !strings.Contains(name, "$") {
		return nil, fmt.Errorf("there is no format %q: write auto, %s, or a format string such as '$remote_addr [$time_local] \"$request\" $status'",
			name, strings.Join(Names, ", "))
	}
	f, err := Compile(name)
	if err != nil {
		return nil, err
	}
	return func() Format { return f }, nil
}

// either is a format of which there are several.
type either []*pattern

// Read implements [Format]. The error is the first form's.
func (fs either) Read(line string, e *Entry) error {
	var first error
	for _, f := range fs {
		err := f.Read(line, e)
		if err == nil {
			return nil
		}
		if first == nil {
			first = err
		}
	}
	return first
}

// Detect returns the name of the format that reads the most of some lines, the first ones of a file. The error says that none
// reads any.
func Detect(lines []string, timeField string) (string, error) {
	best, most := "", 0
	for _, name := range []string{"cloudfront", "json", "alb", "envoy", "combined", "common", "logfmt"} {
		newFormat, err := Named(name, timeField)
		if err != nil {
			return "", err
		}
		f := newFormat()
		n := 0
		for _, line := range lines {
			if f.Read(line, new(Entry)) == nil {
				n++
			}
		}
		if n > most {
			best, most = name, n
		}
	}
	if best == "" {
		return "", fmt.Errorf("no format that is known reads its first lines: name one with --format (%s), or write the format string of the log", strings.Join(Names, ", "))
	}
	return best, nil
}
