package grpclimit

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/protoadapt"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/tidegate-go/tidegate"
)

// undecidedRetry is after which time a caller is told to try again where no decision could be made. It keeps those that
// retry at once from a store that is in trouble.
const undecidedRetry = time.Second

// refusal is why a call does not pass: an error with a gRPC status.
type refusal struct {
	gate     *gate // that refused
	code     codes.Code
	message  string
	limited  bool // a limit refused, as the decision says
	decision tidegate.Decision
	retry    time.Duration // Never where it is of no use
}

// refuse says no as the decision does.
func (g *gate) refuse(d tidegate.Decision) *refusal {
	if d.RetryAfter > permitRetry && d.RetryAfter != tidegate.Never && !d.Unavailable() {
		if l := g.limitOf(d.Rule, d.Limit); l != nil && l.Algorithm == tidegate.Concurrency {
			d.RetryAfter = permitRetry
		}
	}
	r := &refusal{gate: g, code: codes.ResourceExhausted, limited: !d.Unavailable(), decision: d, retry: d.RetryAfter}
	switch {
	case !r.limited:
		r.code = codes.Unavailable
		r.message = fmt.Sprintf("tidegate: rule %q lets nothing pass while its store is away", d.Rule)
	case d.RetryAfter == tidegate.Never:
		r.message = fmt.Sprintf("tidegate: the limit of rule %q never lets such a call pass", d.Rule)
	default:
		r.message = fmt.Sprintf("tidegate: the limit of rule %q is reached: try again in %v", d.Rule, d.RetryAfter)
	}
	return r
}

// undecided says no because nobody could say yes. The cause is the server's own, and only its log is told.
func (g *gate) undecided() *refusal {
	return &refusal{gate: g, code: codes.Unavailable, message: "tidegate: no decision could be made", retry: undecidedRetry}
}

// Error returns what the status's error would.
func (r *refusal) Error() string {
	return "rpc error: code = " + r.code.String() + " desc = " + r.message
}

// GRPCStatus returns the status, with its details.
func (r *refusal) GRPCStatus() *status.Status {
	s := status.New(r.code, r.message)
	var details []protoadapt.MessageV1
	if r.limited {
		rule := strings.ToValidUTF8(r.decision.Rule, "�") // a message holds no other strings
		details = append(details, &errdetails.QuotaFailure{Violations: []*errdetails.QuotaFailure_Violation{{
			Subject:     "rule:" + rule,
			Description: r.message,
			QuotaId:     rule,
			QuotaValue:  r.decision.Limit,
		}}})
	}
	if r.retry != tidegate.Never {
		details = append(details, &errdetails.RetryInfo{RetryDelay: durationpb.New(r.retry)})
	}
	if len(details) == 0 {
		return s
	}
	with, err := s.WithDetails(details...)
	if err != nil { // messages that are valid always marshal
		return s
	}
	return with
}

// trailer returns the metadata of the refusal.
func (r *refusal) trailer() metadata.MD {
	md := metadata.MD{"grpc-retry-pushback-ms": {pushback(r.retry)}}
	if r.retry != tidegate.Never {
		md["retry-after"] = []string{strconv.FormatInt(seconds(max(r.retry, 1)), 10)}
	}
	if r.limited {
		r.gate.addFields(md, &r.decision)
	}
	return md
}

// pushback is the delay in whole milliseconds, rounded up. A negative one tells the client not to retry: its 32 bits hold no
// more than 24 days, and no call waits that long.
func pushback(d time.Duration) string {
	const most = 1<<31 - 1
	ms := d / time.Millisecond
	if d%time.Millisecond > 0 {
		ms++
	}
	if d == tidegate.Never || ms > most {
		return "-1"
	}
	return strconv.FormatInt(int64(ms), 10)
}

// seconds is d in whole seconds, rounded up, and at most what clients keep in 32 bits.
func seconds(d time.Duration) int64 {
	s := int64(d / time.Second)
	if d%time.Second > 0 {
		s++
	}
	return min(s, 1<<31-1)
}

// RetryDelay returns how long to wait before the call that failed with err is made again, as its google.rpc.RetryInfo tells;
// false where there is none, so that it is not known when, or whether, that is of use.
func RetryDelay(err error) (time.Duration, bool) {
	if r, ok := errors.AsType[*refusal](err); ok { // without the detour over the wire's form
		return r.retry, r.retry != tidegate.Never
	}
	s, ok := status.FromError(err)
	if !ok || s == nil {
		return 0, false
	}
	return retryInfo(s)
}

func retryInfo(s *status.Status) (time.Duration, bool) {
	for _, detail := range s.Details() {
		if info, ok := detail.(*errdetails.RetryInfo); ok && info.GetRetryDelay().IsValid() {
			// AsDuration does not overflow: it ends at the longest duration.
			return max(0, info.GetRetryDelay().AsDuration()), true
		}
	}
	return 0, false
}
