package httplimit_test

import (
	"strings"
	"testing"
	"time"

	"github.com/tidegate-go/tidegate"
	"github.com/tidegate-go/tidegate/httplimit"
	"github.com/tidegate-go/tidegate/httplimit/clientip"
)

// Each fault is named, with what to write instead, and all at once.
func TestConfigFaults(t *testing.T) {
	engine := decider(nil)
	for _, c := range []struct {
		name    string
		decider tidegate.Decider
		cfg     httplimit.Config
		want    []string
	}{
		{"no decider", nil, httplimit.Config{}, []string{"the decider is nil"}},
		{"no limiter", (*tidegate.Limiter)(nil), httplimit.Config{}, []string{"the limiter is nil"}},
		{"status", engine, httplimit.Config{Status: 200}, []string{"Status 200"}},
		{"status above", engine, httplimit.Config{Status: 600}, []string{"Status 600"}},
		{"negative", engine, httplimit.Config{Jitter: -1}, []string{"Jitter -1ns"}},
		{"negative renewal", engine, httplimit.Config{RenewEvery: -1}, []string{"RenewEvery -1ns"}},
		{"enums", engine, httplimit.Config{Count: 9, Headers: 9, Legacy: 9}, []string{"Count 9", "Headers 9", "Legacy 9"}},
		{"a queue without a time", limiter(t, "1/s"), httplimit.Config{Queue: httplimit.Queue{Length: 1}}, []string{"needs both"}},
		{"a queue without a length", limiter(t, "1/s"), httplimit.Config{Queue: httplimit.Queue{Wait: 1}}, []string{"needs both"}},
		{"a negative queue", limiter(t, "1/s"), httplimit.Config{Queue: httplimit.Queue{Length: -1, Wait: -1}}, []string{"must not be negative"}},
		{"a queue of what cannot reserve", engine, httplimit.Config{Queue: httplimit.Queue{Length: 1, Wait: time.Second}}, []string{"httplimit_test.decider is no tidegate.Holder"}},
		{"a count of what cannot reserve", engine, httplimit.Config{Count: httplimit.CountFailures}, []string{"is no tidegate.Holder"}},
		{"a count of permits", limiter(t, "1 concurrent"), httplimit.Config{Count: httplimit.CountFailures}, []string{`"1 concurrent`}},
		{"a count of a log", limiter(t, "1/s sliding-log"), httplimit.Config{Count: httplimit.CountFailures}, []string{"sliding window instead"}},
		{"a queue of a log", limiter(t, "1/s sliding-log"), httplimit.Config{Queue: httplimit.Queue{Length: 1, Wait: time.Second}}, []string{"sliding window instead"}},
		{"several", nil, httplimit.Config{Status: 1, ClientIP: &clientip.Config{Hops: 99}}, []string{"Status 1 ", "Hops 99", "decider is nil"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			m, err := httplimit.New(c.decider, &c.cfg)
			if err == nil || m != nil {
				t.Fatalf("%+v is accepted", c.cfg)
			}
			for _, want := range c.want {
				if !strings.Contains(err.Error(), want) {
					t.Errorf("the error does not say %q:\n%v", want, err)
				}
			}
		})
	}
}

// A config is read once: to change it afterwards changes nothing.
func TestConfigIsCopied(t *testing.T) {
	cfg := httplimit.Config{}
	m := middleware(t, limiter(t, "none"), &cfg)
	cfg.Status = 418
	if w := get(m.Wrap(nil)); w.Code != 429 {
		t.Error(w.Code)
	}
}

func TestTransportConfigFaults(t *testing.T) {
	for _, c := range []struct {
		name string
		cfg  httplimit.TransportConfig
		want []string
	}{
		{"negative", httplimit.TransportConfig{MaxWait: -1}, []string{"MaxWait -1ns"}},
		{"both", httplimit.TransportConfig{Refuse: true, MaxWait: time.Second}, []string{"Refuse and MaxWait 1s"}},
		{"permits", httplimit.TransportConfig{Limiter: limiter(t, "1 concurrent"), MaxHosts: -1}, []string{"in flight", "MaxHosts -1"}},
		{"a log that waits", httplimit.TransportConfig{Limiter: limiter(t, "1/s sliding-log")}, []string{"set Refuse"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			tr, err := httplimit.NewTransport(&c.cfg)
			if err == nil || tr != nil {
				t.Fatalf("%+v is accepted", c.cfg)
			}
			for _, want := range c.want {
				if !strings.Contains(err.Error(), want) {
					t.Errorf("the error does not say %q:\n%v", want, err)
				}
			}
		})
	}
}
