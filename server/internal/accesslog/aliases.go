package accesslog

import "strings"

// aliases are what those who name the fields of their logs themselves call them: JSON's names with dots between the levels, and
// logfmt's.
var aliases = map[string]struct {
	name string
	kind kind
}{
	"time": {"", when}, "timestamp": {"", when}, "@timestamp": {"", when}, "ts": {"", when}, "t": {"", when},
	"time_local": {"", when}, "time_iso8601": {"", when}, "msec": {"", when}, "datetime": {"", when}, "date": {"", when},
	"start_time": {"", began}, "StartUTC": {"", began}, "StartLocal": {"", began},

	"method": {Method, plain}, "request_method": {Method, plain}, "request.method": {Method, plain}, "req.method": {Method, plain},
	"http.method": {Method, plain}, "http.request.method": {Method, plain}, "verb": {Method, plain},
	"httpRequest.requestMethod": {Method, plain}, "RequestMethod": {Method, plain}, "cs_method": {Method, plain},

	"request": {"", request},

	"path": {"", target}, "uri": {"", target}, "url": {"", target}, "request_uri": {"", target}, "request.uri": {"", target},
	"req.url": {"", target}, "http.target": {"", target}, "http.url": {"", target}, "url.original": {"", target}, "url.path": {"", target},
	"httpRequest.requestUrl": {"", target}, "RequestPath": {"", target}, "request_path": {"", target}, "x_envoy_original_path": {"", target},
	"query": {Query, plain}, "args": {Query, plain}, "query_string": {Query, plain}, "url.query": {Query, plain},

	"protocol": {Protocol, plain}, "proto": {Protocol, plain}, "request.proto": {Protocol, plain}, "server_protocol": {Protocol, plain},

	"host": {Host, plain}, "http_host": {Host, plain}, "request.host": {Host, plain}, "authority": {Host, plain}, "vhost": {Host, plain},
	"url.domain": {Host, plain}, "RequestHost": {Host, plain}, "req.host": {Host, plain},

	"remote_addr": {Address, hostPort}, "remote_ip": {Address, hostPort}, "request.remote_ip": {Address, hostPort},
	"request.remote_addr": {Address, hostPort}, "remote": {Address, hostPort}, "client_ip": {Address, hostPort}, "client": {Address, hostPort},
	"clientip": {Address, hostPort}, "client.ip": {Address, hostPort}, "source.ip": {Address, hostPort}, "ip": {Address, hostPort},
	"peer": {Address, hostPort}, "downstream_remote_address": {Address, hostPort}, "httpRequest.remoteIp": {Address, hostPort},
	"ClientHost": {Address, hostPort}, "req.remoteAddress": {Address, hostPort},

	"remote_user": {User, plain}, "user": {User, plain}, "user_id": {User, plain},

	"status": {Status, plain}, "status_code": {Status, plain}, "response_code": {Status, plain}, "code": {Status, plain},
	"http.status_code": {Status, plain}, "http.response.status_code": {Status, plain}, "res.statusCode": {Status, plain},
	"httpRequest.status": {Status, plain}, "DownstreamStatus": {Status, plain},

	"user_agent": {"http_user_agent", plain}, "useragent": {"http_user_agent", plain}, "http_user_agent": {"http_user_agent", plain},
	"user_agent.original": {"http_user_agent", plain}, "httpRequest.userAgent": {"http_user_agent", plain},
	"referer": {"http_referer", plain}, "referrer": {"http_referer", plain}, "http_referer": {"http_referer", plain},
	"x_forwarded_for": {"http_x_forwarded_for", plain}, "http_x_forwarded_for": {"http_x_forwarded_for", plain},
	"xff": {"http_x_forwarded_for", plain}, "forwarded_for": {"http_x_forwarded_for", plain},
}

// headersOf are the levels below which JSON logs have headers by their names.
var headersOf = []string{"request.headers.", "req.headers.", "headers."}

// named adds a field of a name that the log's owner chose, under that name, and under the one that it has in other formats.
// It returns an error if the field is the request's time or target, and cannot be read. The time is the field that is named, or
// else the first that is known to be one, and rather one of the request's start.
func (e *Entry) named(name, value, timeField string) error {
	if value == "" || value == "-" {
		return nil
	}
	a, ok := aliases[name]
	if timeField != "" && (name == timeField || ok && a.kind == when || ok && a.kind == began) {
		e.add(name, value)
		if name == timeField {
			return e.setTime(value)
		}
		return nil
	}
	switch {
	case ok && (a.kind == when || a.kind == began):
		if e.AtStart || !e.Time.IsZero() && a.kind == when {
			e.add(name, value) // the time is known already
			return nil
		}
		return e.fill(a.kind, "", value)
	case ok && a.kind == request && !strings.Contains(value, " "):
		e.add(name, value) // something else that is called a request
		return nil
	case ok:
		if name != a.name && name != Path && name != Query {
			e.add(name, value)
		}
		return e.fill(a.kind, a.name, value)
	}
	e.add(name, value)
	for _, prefix := range headersOf {
		if header, ok := strings.CutPrefix(name, prefix); ok {
			e.add(HeaderPrefix+strings.ReplaceAll(strings.ToLower(header), "-", "_"), value)
		}
	}
	return nil
}
